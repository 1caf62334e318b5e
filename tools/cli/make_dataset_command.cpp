// `forebay make-dataset`: checks the arguments, makes the dataset (made_dataset.cpp) with a
// progress bar, and, for tasks that need one, writes the configuration that feeds it
// (made_config.cpp).
//
// All arguments are checked before the first file is written. The defaults of the layout, the
// colours and the number of objects depend on the task.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/cores.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "made_dataset.hpp"
#include "output.hpp"

namespace forebay::cli {
namespace {

struct MakeDatasetArguments {
  DatasetPlan plan{.directory = {}, .images = 1000, .classes = 8, .seed = 17};
  std::string task = "classification";
  std::string directory;
  std::string size = "320x240";
  std::string layout = "voc";
  std::string colours;      // "": depends on the task
  std::size_t objects = 0;  // 0: not given
  bool force = false;
};

// At most 16384 pixels per side (chosen): while it is painted, a picture has 12 bytes per pixel.
void read_size(const std::string& text, DatasetPlan& plan) {
  constexpr int kMost = 16384;
  const auto side = [](std::string_view digits) {
    const int pixels = parse_number<int>(digits).value_or(0);
    return pixels >= kSmallestSide && pixels <= kMost ? pixels : 0;
  };
  const auto sides = split(text, 'x');
  plan.width = side(sides.front());
  plan.height = side(sides.back());
  if (sides.size() == 2 && plan.width > 0 && plan.height > 0) return;
  throw ConfigError("--size " + text + ": expected WIDTHxHEIGHT in pixels such as 320x240, from " +
                    std::to_string(kSmallestSide) + " to " + std::to_string(kMost) + " each");
}

// The default: four objects, or as many as fit.
std::size_t usual_objects(const DatasetPlan& plan) {
  constexpr std::size_t kUsual = 4;
  return std::clamp<std::size_t>(most_objects(plan.width, plan.height), 1, kUsual);
}

// Refuses a folder that is not empty, because files of an earlier dataset would mix with the new
// ones.
void refuse_full(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) return;
  if (!std::filesystem::is_directory(directory, error)) {
    throw ConfigError(directory.string() + " is not a folder");
  }
  if (std::filesystem::is_empty(directory, error) && !error) return;
  throw ConfigError(directory.string() + (error ? ": " + error.message()
                                                : " is not empty: name another folder, or "
                                                  "write into it with --force"));
}

// A place that cannot be written is an error of the arguments.
void make_folder(const std::filesystem::path& directory) {
  try {
    const OutputFolder folder(directory);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

constexpr std::array<std::string_view, 5> kTasks{"classification", "segmentation", "detection", "multilabel", "video"};

Task task_of(const std::string& name) {
  return static_cast<Task>(std::ranges::find(kTasks, name) - kTasks.begin());  // CLI11 has checked the name
}

// The task determines the layout; only classification has a choice.
DatasetPlan::Layout layout_of(Task task, bool is_folder) {
  using Layout = DatasetPlan::Layout;
  if (is_folder && task != Task::classification) {
    throw ConfigError("--layout folder gives each image one class; leave it out with another --task");
  }
  switch (task) {
    case Task::segmentation: return Layout::masks;
    case Task::multilabel: return Layout::table;
    case Task::video: return Layout::videos;
    case Task::classification:
    case Task::detection: break;
  }
  return is_folder ? Layout::folder : Layout::voc;
}

DatasetPlan plan_of(const MakeDatasetArguments& arguments) {
  DatasetPlan plan = arguments.plan;
  plan.directory = arguments.directory;
  read_size(arguments.size, plan);
  plan.task = task_of(arguments.task);
  plan.layout = layout_of(plan.task, arguments.layout == "folder");
  const std::string usual = plan.task == Task::classification ? "any" : "class";
  plan.colours = (arguments.colours.empty() ? usual : arguments.colours) == "any" ? Colours::any : Colours::by_class;
  plan.most_objects = arguments.objects > 0 ? arguments.objects : usual_objects(plan);
  if (plan.task == Task::video) {
    if (arguments.objects > 0) throw ConfigError("--objects: a video is of one class, how it moves; leave it out");
    plan.most_objects = 1;
  }
  if (plan.layout == DatasetPlan::Layout::folder) {
    if (arguments.objects > 1) throw ConfigError("--objects: with --layout folder every image holds one object");
    plan.most_objects = 1;
  }
  if (plan.threads == 0) plan.threads = cores_of_process().usable();
  return plan;
}

void write_config(const std::string& file, const std::string& text) {
  try {
    write_all(open_made(file), text);
  } catch (const Error& error) {
    throw Error(file + ": " + error.what());
  }
}

// Writes a configuration for every task but classification, whose path says everything.
int make(const MakeDatasetArguments& arguments) {
  const DatasetPlan plan = plan_of(arguments);
  if (!arguments.force) refuse_full(plan.directory);
  make_folder(plan.directory);
  const MadeDataset made = [&] {
    ProgressBar bar("painting");
    return make_dataset(plan, bar.progress());
  }();
  const std::string parts =
      plan.split > 0 ? " (" + grouped(made.training) + " in train, " + grouped(made.validation) + " in val)" : "";
  const bool are_videos = plan.task == Task::video;
  const std::string objects = are_videos ? "" : grouped(made.objects) + " objects of ";
  std::printf("%s: %s %s%s of %dx%d, %s%zu classes, %s\n", printable(arguments.directory).c_str(),
              grouped(plan.images).c_str(), are_videos ? "videos" : "images", parts.c_str(), plan.width, plan.height,
              objects.c_str(), plan.classes, size_text(made.bytes).c_str());
  if (plan.task == Task::classification) return 0;  // needs no configuration
  const std::string config = (plan.directory / "feed.toml").string();
  write_config(config, feeding_config(plan) + "\n");
  std::printf("%s feeds it: forebay feed %s\n", printable(config).c_str(), printable(config).c_str());
  return 0;
}

}  // namespace

void add_make_dataset_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<MakeDatasetArguments>();
  DatasetPlan& plan = arguments->plan;
  plan.threads = 0;
  CLI::App* command =
      app.add_subcommand("make-dataset", "Generate a learnable set of JPEG images with what is to be learned of them");
  command->add_option("DIR", arguments->directory, "folder to write, new or empty")->required();
  command
      ->add_option("--task", arguments->task,
                   "what is to be learned; all but classification come with a DIR/feed.toml that feeds them")
      ->check(CLI::IsMember(std::vector<std::string>(kTasks.begin(), kTasks.end())))
      ->capture_default_str();
  command->add_option("--images", plan.images, "images in all, or videos")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command->add_option("--classes", plan.classes, "classes of shapes, or of video ways to move")->capture_default_str();
  not_negative(command->add_option("--seed", plan.seed, "the same seed makes the same files"))->capture_default_str();
  command->add_option("--size", arguments->size, "WIDTHxHEIGHT of an image in pixels")->capture_default_str();
  command->add_option("--objects", arguments->objects, "at most this many objects in an image (usually 4)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--quality", plan.quality, "of the JPEG files")->check(CLI::Range(1, 100))->capture_default_str();
  command
      ->add_option("--layout", arguments->layout,
                   "of classification; voc: images and XML | folder: a folder of images per class")
      ->check(CLI::IsMember({"voc", "folder"}))
      ->capture_default_str();
  command
      ->add_option("--colours", arguments->colours,
                   "any: form alone tells a shape (default for classification) | class: its colour does too, so that "
                   "small models "
                   "learn (default for other tasks)")
      ->check(CLI::IsMember({"any", "class"}));
  command->add_option("--split", plan.split, "hold out this share: writes DIR/train and DIR/val")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--threads", plan.threads, "0 = as many as there are cores; never changes the files")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "write into a folder that is not empty, over files of the same name");
  command->footer(
      "Examples:\n"
      "  forebay make-dataset data --images 2000 --classes 8 --split 0.2\n"
      "  forebay make-dataset small --images 100 --size 96x72 --seed 3\n"
      "  forebay make-dataset tree --layout folder --size 64x64\n"
      "  forebay make-dataset masks --task segmentation --classes 3\n"
      "  forebay make-dataset clips --task video --images 200 --size 96x72");
  on_call(*command, invocation, [arguments] { return make(*arguments); });
}

}  // namespace forebay::cli

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "data/parallel.hpp"
#include "output.hpp"
#include "scene.hpp"

namespace forebay {
namespace {

// A generated dataset of shapes on textured backgrounds. Colour, size and position do not depend on the class.
struct DatasetPlan {
  enum class Layout : std::uint8_t {
    voc,     // JPEGImages/NUMBER.jpg with Annotations/NUMBER.xml, several objects each
    folder,  // CLASS/NUMBER.jpg, one object each, filling the picture
  };

  std::filesystem::path directory;
  std::uint64_t images = 0;
  std::size_t classes = 0;  // the first of shapes()
  std::uint64_t seed = 0;
  int width = 0;
  int height = 0;
  std::size_t most_objects = 1;  // per image; at least 1
  int quality = 85;
  Layout layout = Layout::voc;
  double split = 0;  // > 0: this share of the images goes to directory/val, the others to directory/train
  unsigned threads = 1;
};

struct MadeDataset {
  std::uint64_t training = 0;    // images
  std::uint64_t validation = 0;  // images
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // of the JPEG files
};

namespace fs = std::filesystem;

// Keys of the independent random streams of a dataset.
enum class Stream : std::uint8_t { counts, classes, pictures };

void write_file(const fs::path& file, std::span<const char> bytes) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Error("cannot write " + file.string() + ": " + std::strerror(errno));
}

void make_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Error("cannot make the folder " + directory.string() + ": " + error.message());
}

// Pascal VOC counts pixels from 1 and includes the last one.
std::string annotation(const std::string& file, const Scene& scene) {
  const auto element = [](const char* name, const std::string& value) {
    return std::string("<") + name + ">" + value + "</" + name + ">";
  };
  const auto number = [&](const char* name, int value) { return element(name, std::to_string(value)); };
  std::string xml = "<annotation>\n  " + element("folder", "JPEGImages") + "\n  " + element("filename", file) + "\n";
  xml += "  <size>" + number("width", scene.image.width) + number("height", scene.image.height) + number("depth", 3) +
         "</size>\n  " + number("segmented", 0) + "\n";
  for (const PaintedObject& object : scene.objects) {
    const Box& box = object.box;
    xml += "  <object>\n    " + element("name", std::string(shapes()[object.shape].name)) + "\n    " +
           element("pose", "Unspecified") + number("truncated", 0) + number("difficult", 0) + "\n    <bndbox>" +
           number("xmin", box.left + 1) + number("ymin", box.top + 1) + number("xmax", box.right) +
           number("ymax", box.bottom) + "</bndbox>\n  </object>\n";
  }
  return xml + "</annotation>\n";
}

// Decides what is in each image, without painting any.
class Contents {
 public:
  explicit Contents(const DatasetPlan& plan) : plan_(plan), first_(plan.images + 1) {
    for (std::uint64_t image = 0; image < plan.images; ++image) {
      Random random(key64(plan.seed, Stream::counts, image));
      first_[image + 1] = first_[image] + 1 + random.below(plan.most_objects);
    }
  }

  [[nodiscard]] std::uint64_t objects() const noexcept { return first_.back(); }

  // Shapes of the image's objects.
  [[nodiscard]] std::vector<std::size_t> of(std::uint64_t image) const {
    std::vector<std::size_t> chosen;
    for (std::uint64_t object = first_[image]; object < first_[image + 1]; ++object) {
      chosen.push_back(shape_of(object));
    }
    return chosen;
  }

 private:
  // Every group of `classes` objects contains each class once, in random order, which keeps the classes even.
  [[nodiscard]] std::size_t shape_of(std::uint64_t object) const {
    std::vector<std::size_t> order(plan_.classes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    Random random(key64(plan_.seed, Stream::classes, object / plan_.classes));
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order[object % plan_.classes];
  }

  const DatasetPlan& plan_;
  std::vector<std::uint64_t> first_;  // number of an image's first object among all objects
};

// Writes single images; any thread.
class Writer {
 public:
  Writer(const DatasetPlan& plan, const Contents& contents, std::uint64_t training)
      : plan_(plan), contents_(contents), training_(training) {}

  void make_folders() const {
    for (const fs::path& root : roots()) {
      if (plan_.layout == DatasetPlan::Layout::voc) {
        make_directories(root / "JPEGImages");
        make_directories(root / "Annotations");
        continue;
      }
      for (const DrawnShape& shape : shapes().first(plan_.classes)) make_directories(root / shape.name);
    }
  }

  // Returns the bytes of the JPEG file.
  [[nodiscard]] std::uint64_t write(std::uint64_t image) const {
    const bool is_folder = plan_.layout == DatasetPlan::Layout::folder;
    const std::vector<std::size_t> chosen = contents_.of(image);
    const Scene scene =
        paint_scene(plan_.width, plan_.height, chosen, is_folder, key64(plan_.seed, Stream::pictures, image));
    const std::vector<std::byte> jpeg = encode_jpeg(scene.image, plan_.quality);
    const fs::path root = root_of(image);
    const std::string name = number_of(image);
    const fs::path folder = is_folder ? root / shapes()[chosen.front()].name : root / "JPEGImages";
    write_file(folder / (name + ".jpg"), {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
    if (!is_folder) write_file(root / "Annotations" / (name + ".xml"), annotation(name + ".jpg", scene));
    return jpeg.size();
  }

 private:
  [[nodiscard]] std::vector<fs::path> roots() const {
    if (plan_.split <= 0) return {plan_.directory};
    return {plan_.directory / "train", plan_.directory / "val"};
  }
  [[nodiscard]] fs::path root_of(std::uint64_t image) const { return roots()[image < training_ ? 0 : 1]; }

  // From 1, with leading zeros, so that names sort like numbers.
  [[nodiscard]] std::string number_of(std::uint64_t image) const {
    const std::size_t digits = std::max<std::size_t>(6, std::to_string(plan_.images).size());
    const std::string number = std::to_string(image + 1);
    return std::string(digits - number.size(), '0') + number;
  }

  const DatasetPlan& plan_;
  const Contents& contents_;
  std::uint64_t training_;
};

void check(const DatasetPlan& plan) {
  if (plan.classes < 1 || plan.classes > shapes().size()) {
    throw ConfigError("--classes " + std::to_string(plan.classes) + ": there are shapes for 1 to " +
                      std::to_string(shapes().size()) + " classes");
  }
  const std::size_t room = most_objects(plan.width, plan.height);
  if (plan.most_objects > room) {
    throw ConfigError("--objects " + std::to_string(plan.most_objects) + ": a picture of " +
                      std::to_string(plan.width) + "x" + std::to_string(plan.height) + " has room for " +
                      std::to_string(room) + "; make --size larger or --objects smaller");
  }
}

// Images that go to the training part.
std::uint64_t training_images(const DatasetPlan& plan) {
  if (plan.split <= 0) return plan.images;
  const auto held_out = static_cast<std::uint64_t>(std::llround(static_cast<double>(plan.images) * plan.split));
  if (held_out == 0 || held_out >= plan.images) {
    throw ConfigError("--split leaves one part without images: " + std::to_string(held_out) + " of " +
                      std::to_string(plan.images) + " would be held out");
  }
  return plan.images - held_out;
}

// Writes the dataset: the same bytes for the same plan, whatever `threads` and `directory` are. Objects of a class
// differ in number by at most one. Calls progress(images done, images) on the calling thread.
// Throws ConfigError for a plan that cannot be carried out, Error naming the file that cannot be written.
MadeDataset make_dataset(const DatasetPlan& plan, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  check(plan);
  const Contents contents(plan);
  const std::uint64_t training = training_images(plan);
  const Writer writer(plan, contents, training);
  writer.make_folders();
  std::atomic<std::uint64_t> bytes{0};
  const ParallelTask paint{
      .count = plan.images, .body = [&](std::size_t image) { bytes += writer.write(image); }, .total = plan.images};
  run_parallel(paint, std::max(1U, plan.threads), progress);
  return {training, plan.images - training, contents.objects(), bytes};
}

struct MakeDatasetArguments {
  DatasetPlan plan{.directory = {}, .images = 1000, .classes = 8, .seed = 17};
  std::string directory;
  std::string size = "320x240";
  std::string layout = "voc";
  std::size_t objects = 0;  // 0: not given
  bool force = false;
};

void read_size(const std::string& text, DatasetPlan& plan) {
  const char* const end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, plan.width);
  const bool has_x = width.ec == std::errc{} && width.ptr != end && *width.ptr == 'x';
  const auto height = has_x ? std::from_chars(width.ptr + 1, end, plan.height) : width;
  constexpr int kMost = 16384;
  const auto is_usable = [](int side) { return side >= kSmallestSide && side <= kMost; };
  if (has_x && height.ec == std::errc{} && height.ptr == end && is_usable(plan.width) && is_usable(plan.height)) return;
  throw ConfigError("--size " + text + ": expected WIDTHxHEIGHT in pixels such as 320x240, from " +
                    std::to_string(kSmallestSide) + " to " + std::to_string(kMost) + " each");
}

// As many as fit well, if the user did not say.
std::size_t usual_objects(const DatasetPlan& plan) {
  constexpr std::size_t kUsual = 4;
  return std::clamp<std::size_t>(most_objects(plan.width, plan.height), 1, kUsual);
}

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

DatasetPlan plan_of(const MakeDatasetArguments& arguments) {
  DatasetPlan plan = arguments.plan;
  plan.directory = arguments.directory;
  read_size(arguments.size, plan);
  plan.layout = arguments.layout == "voc" ? DatasetPlan::Layout::voc : DatasetPlan::Layout::folder;
  plan.most_objects = arguments.objects > 0 ? arguments.objects : usual_objects(plan);
  if (plan.layout == DatasetPlan::Layout::folder) {
    if (arguments.objects > 1) throw ConfigError("--objects: with --layout folder every image holds one object");
    plan.most_objects = 1;
  }
  if (plan.threads == 0) plan.threads = std::max(1U, std::thread::hardware_concurrency());
  return plan;
}

int make(const MakeDatasetArguments& arguments) {
  const DatasetPlan plan = plan_of(arguments);
  if (!arguments.force) refuse_full(plan.directory);
  const MadeDataset made = [&] {
    ProgressBar bar("painting");
    return make_dataset(plan, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  }();
  const std::string parts =
      plan.split > 0 ? " (" + grouped(made.training) + " in train, " + grouped(made.validation) + " in val)" : "";
  std::printf("%s: %s images%s of %dx%d, %s objects of %zu classes, %s\n", arguments.directory.c_str(),
              grouped(plan.images).c_str(), parts.c_str(), plan.width, plan.height, grouped(made.objects).c_str(),
              plan.classes, size_text(made.bytes).c_str());
  return 0;
}

}  // namespace

void add_make_dataset_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<MakeDatasetArguments>();
  DatasetPlan& plan = arguments->plan;
  plan.threads = 0;
  CLI::App* command = app.add_subcommand("make-dataset", "Generate a learnable set of JPEG images with annotations");
  command->add_option("DIR", arguments->directory, "folder to write, new or empty")->required();
  command->add_option("--images", plan.images, "images in all")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command->add_option("--classes", plan.classes, "classes of shapes")->capture_default_str();
  command->add_option("--seed", plan.seed, "the same seed makes the same files")->capture_default_str();
  command->add_option("--size", arguments->size, "WIDTHxHEIGHT of an image in pixels")->capture_default_str();
  command->add_option("--objects", arguments->objects, "at most this many objects in an image (usually 4)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--quality", plan.quality, "of the JPEG files")->check(CLI::Range(1, 100))->capture_default_str();
  command->add_option("--layout", arguments->layout, "voc: images and XML | folder: a folder of images per class")
      ->check(CLI::IsMember({"voc", "folder"}))
      ->capture_default_str();
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
      "  forebay make-dataset tree --layout folder --size 64x64");
  on_call(*command, invocation, [arguments] { return make(*arguments); });
}

}  // namespace forebay

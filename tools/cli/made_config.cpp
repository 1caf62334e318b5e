#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include "config/schema.hpp"
#include "config/values.hpp"
#include "made_dataset.hpp"

namespace forebay::cli {
namespace {

constexpr double kHeldOut = 0.2;  // share of the images, unless they have a folder of their own

std::vector<std::string> class_names(const DatasetPlan& plan) {
  std::vector<std::string> names;
  for (const DrawnShape& shape : shapes().first(plan.classes)) names.emplace_back(shape.name);
  return names;
}

std::string remarks(const DatasetPlan& plan) {
  std::string text = "# Feeds what forebay make-dataset has made.";
  if (plan.task == Task::segmentation) {
    text += " In a mask 0 is background";
    std::size_t number = 0;
    for (const std::string& name : class_names(plan)) text += ", " + std::to_string(++number) + " is " + name;
    text += ".";
  }
  return text + (plan.split > 0 ? "\n# What is held out lies in the folder val beside train."
                                : "\n# To evaluate on what is held out: part = 1, and eval = true in [run].");
}

void append_keys(std::string& out, const Options& options, std::string_view section,
                 std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    out += std::string(name) + " = " + config::value_text(*config::find_key(section, name), options) + "\n";
  }
}

// The options for the plan's task. The batch is an eighth of a small dataset, so that an epoch has
// several steps.
Options options_of(const DatasetPlan& plan) {
  const std::filesystem::path root = plan.split > 0 ? plan.directory / "train" : plan.directory;
  Options options;
  DatasetOptions& dataset = options.dataset;
  dataset.path = root.string();
  dataset.batch_size = static_cast<std::int64_t>(std::clamp<std::uint64_t>(plan.images / 8, 1, 32));
  if (plan.split <= 0) dataset.split = {1 - kHeldOut, kHeldOut};
  options.transform.size = {plan.height, plan.width};
  options.transform.scale = {0.3, 1.0};
  switch (plan.task) {
    case Task::classification: break;
    case Task::segmentation:
      dataset.format = "folder";
      dataset.path = (root / "images").string();
      dataset.fields.push_back({.name = "mask", .from = "../masks/{stem}.png", .kind = FieldKind::mask});
      break;
    case Task::detection:
      dataset.format = "voc";
      dataset.samples = SampleUnit::images;
      dataset.classes = class_names(plan);
      dataset.fields.push_back(
          {.name = "boxes", .kind = FieldKind::boxes, .most = static_cast<std::int64_t>(plan.most_objects)});
      break;
    case Task::multilabel:
      dataset.format = "table";
      dataset.path = (root / "labels.csv").string();
      dataset.fields.push_back({.name = "labels", .kind = FieldKind::multilabel, .classes = class_names(plan)});
      break;
    case Task::video:
      dataset.clip = {.frames = 8, .stride = 3};
      options.transform.mirror = 0;  // mirroring would reverse the motion, which is the class
      break;
  }
  return options;
}

}  // namespace

// Writes the configuration that feeds a generated dataset. Values are printed by the
// configuration's own code, so they are quoted as it reads them.
std::string feeding_config(const DatasetPlan& plan) {
  const Options options = options_of(plan);
  std::string out = remarks(plan) + "\n\n[dataset]\n";
  append_keys(out, options, "dataset", {"format", "path", "batch_size"});
  if (plan.task == Task::detection) append_keys(out, options, "dataset", {"samples", "classes"});
  if (plan.split <= 0) append_keys(out, options, "dataset", {"split"});
  if (plan.task == Task::video) {
    out += "\n[clip]\n";
    append_keys(out, options, "clip", {"frames", "stride"});
  }
  out += "\n[transform]\n";
  append_keys(out, options, "transform", {"size", "scale"});
  if (plan.task == Task::video) append_keys(out, options, "transform", {"mirror"});
  for (const FieldOptions& field : options.dataset.fields) config::append_field(out, field);
  out.pop_back();  // the caller adds the last line feed
  return out;
}

}  // namespace forebay::cli

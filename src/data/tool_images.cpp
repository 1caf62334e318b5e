#include "tool_images.hpp"

#include <algorithm>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

// Longer than any class name of a real dataset, and short enough that a list of classes stays small.
constexpr std::size_t kLongestToolName = 256;
// How many images, spread over the file, are looked for to find their folder. Chosen: some may be
// missing without harm.
constexpr std::size_t kImagesTried = 8;

// Called twice per object, first to collect the classes and then to add the object, because all
// classes must be known before the first sample.
std::string problem_of_tool_object(const ToolObject& object, const ImageExtent& size) {
  if (!object.problem.empty()) return object.problem;
  if (object.name.empty()) return "it has no label";
  if (object.name.size() > kLongestToolName) return "a label of " + std::to_string(object.name.size()) + " bytes";
  std::string problem = problem_of_box(object.sides);
  const bool is_beyond = size.width > 0 && (object.sides[0] >= size.width || object.sides[1] >= size.height);
  if (problem.empty() && is_beyond) {
    problem = "lies outside its image of " + std::to_string(size.width) + "x" + std::to_string(size.height);
  }
  if (problem.empty()) return {};
  return "its box (" + joined(object.sides, ", ", shortest) + ") " + problem;
}

}  // namespace

std::string folder_of_images(const DatasetOptions& options, const std::string& annotations,
                             std::vector<std::string> likely, std::size_t images,
                             const std::function<std::string(std::size_t)>& path_of,
                             std::string (*file_of)(std::string_view folder, std::string_view path)) {
  const FieldOptions* const image = find_field(options, "image");
  if (image != nullptr && !image->from.empty()) {
    likely = {image->from.starts_with('/') ? image->from : join_path(parent_folder(annotations), image->from)};
  }
  if (images == 0) return likely.front();
  const std::size_t tried = std::min(kImagesTried, images);
  std::size_t most = 0;
  const std::string* best = nullptr;
  for (const std::string& folder : likely) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < tried; ++i) {
      found += store::problem_of_file(file_of(folder, path_of(i * (images / tried)))).empty() ? 1 : 0;
    }
    if (found > most) best = &folder;
    most = std::max(most, found);
  }
  if (best != nullptr) return *best;
  throw path_error(options, "its images, such as " + path_of(0) + ", are not in " + joined(likely, ", ") +
                                "; name their folder, relative to the file: [fields.image] from = \"../images\"");
}

void refuse_label_field(const DatasetOptions& options) {
  if (find_field(options, "label") == nullptr) return;
  throw ConfigError("fields.label: the class of a sample is that of its objects; leave this section out");
}

// Objects are numbered as in the file, including unusable ones, because the number is part of the
// sample's name.
void add_tool_images(const BuildContext& context, const std::vector<ToolImage>& images, IndexDraft& draft) {
  std::vector<std::string> names;
  for (const ToolImage& image : images) {
    for (const ToolObject& object : image.objects) {
      if (problem_of_tool_object(object, image.size).empty()) names.push_back(object.name);
    }
  }
  const ClassList classes(context.options.classes, std::move(names));
  ObjectSamples samples(context.options, classes.names());
  std::vector<FoundObject> found;
  for (const ToolImage& image : images) {
    found.clear();
    std::uint32_t number = 0;
    for (const ToolObject& object : image.objects) {
      ++number;
      ++draft.counts.objects;
      std::string problem = problem_of_tool_object(object, image.size);
      const std::int32_t label = problem.empty() ? classes.number_of(object.name) : -1;
      if (problem.empty() && label < 0) problem = "class \"" + printable(object.name) + "\" is not in dataset.classes";
      if (!problem.empty()) {
        draft.skipped.add_bad(image.where + "#object " + std::to_string(number), std::move(problem));
        continue;
      }
      found.push_back({{.box = pixels_of(object.sides), .object = number}, labelled_box(object.sides, label)});
    }
    if (found.empty() && !samples.are_images()) draft.skipped.add_note(image.where, "an image without objects");
    samples.add(image.path, found, image.size, draft.table);
  }
  if (samples.sizes_left_out() > 0) {
    draft.skipped.add_note(draft.root, sizes_left_out_note(samples.sizes_left_out()));
  }
  samples.finish(draft.table);
}

void ShapesLeftOut::report(const std::string& where, SkipLog& skipped) const {
  for (const auto& [kind, count] : counts_) {
    skipped.add_note(where, std::to_string(count) + " shapes of the kind \"" + printable(kind) +
                                "\", which have no box; boxes come from rectangles and polygons");
  }
}

}  // namespace forebay::data

// Images with a JSON file of labelme beside each.
//
// The tree is listed, then several threads read one JSON file each, leaving out "imageData", which
// may hold the whole image as base64. Then, on the calling thread and in the order of files, each
// is matched with its image, and add_tool_images (tool_images.cpp) makes samples of all.
//
// Polygons and rectangles become boxes, the extent of their points. Other shapes are left out:
// circles are stored as a centre and a point on the edge, and points and lines have no area.

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"
#include "build.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "parallel.hpp"
#include "tool_images.hpp"

namespace forebay::data {
namespace {

// Chosen: labelme's own files are nested five deep.
constexpr std::size_t kDeepestLabelme = 32;
constexpr std::size_t kFilesLookedAt = 8;

using Json = nlohmann::json;

// What one thread read from a file.
struct LabelmeFile {
  std::string problem;
  std::string image;  // imagePath
  DataState::Annotation state;
  ToolImage found;
  ShapesLeftOut left_out;
};

// Parses a file without the image in it. The callback is called for a key before its value is
// parsed, and refusing the key drops the value, too.
Json parse_labelme(const std::string& path, DataState::Annotation& state) {
  const auto bytes = load_annotation(path, state);
  const std::string_view text = as_text(bytes);
  if (json_depth(text) > kDeepestLabelme) throw SampleError("it is nested too deeply");
  const auto keep = [](int depth, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || depth != 1 || parsed != "imageData";
  };
  Json json = Json::parse(text, keep, false);
  if (json.is_discarded()) throw SampleError("it is not JSON" + nature_as_cause(bytes));
  return json;
}

bool is_labelme_json(const Json& json) {
  return json.is_object() && json.contains("shapes") && json["shapes"].is_array() && json.contains("imagePath");
}

std::string text_of_key(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int32_t extent_of_key(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return 0;
  const auto extent = found->get<std::int64_t>();
  return extent > 0 && extent <= 1'000'000'000 ? static_cast<std::int32_t>(extent) : 0;
}

// Sets the object's sides to the extent of its points, or sets its problem.
void read_points(const Json& shape, ToolObject& object) {
  const auto points = shape.find("points");
  if (points == shape.end() || !points->is_array() || points->size() < 2) {
    object.problem = "\"points\" are not two or more";
    return;
  }
  bool is_first = true;
  for (const Json& point : *points) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
      object.problem = "a point is not two numbers";
      return;
    }
    const auto x = point[0].get<double>();
    const auto y = point[1].get<double>();
    auto& [left, top, right, bottom] = object.sides;
    if (is_first) object.sides = {x, y, x, y};
    is_first = false;
    object.sides = {std::min(left, x), std::min(top, y), std::max(right, x), std::max(bottom, y)};
  }
}

void read_shapes(const Json& json, LabelmeFile& file) {
  for (const Json& shape : json["shapes"]) {
    ToolObject object;
    if (!shape.is_object()) {
      object.problem = "a shape is no object";
      file.found.objects.push_back(std::move(object));
      continue;
    }
    std::string kind = text_of_key(shape, "shape_type");
    if (kind.empty()) kind = "polygon";  // as in labelme's first versions
    if (kind != "polygon" && kind != "rectangle") {
      file.left_out.add(kind);
      continue;
    }
    object.name = text_of_key(shape, "label");
    read_points(shape, object);
    file.found.objects.push_back(std::move(object));
  }
}

LabelmeFile read_labelme(const std::string& path) {
  LabelmeFile file;
  try {
    const Json json = parse_labelme(path, file.state);
    if (!is_labelme_json(json)) {
      file.problem = R"(no file of labelme: it has no "shapes" and "imagePath")";
      return file;
    }
    file.image = text_of_key(json, "imagePath");
    std::ranges::replace(file.image, '\\', '/');
    const ImageExtent size{extent_of_key(json, "imageWidth"), extent_of_key(json, "imageHeight")};
    if (size.is_known()) file.found.size = size;
    read_shapes(json, file);
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(path, error);
    file.problem = error.what();
  }
  return file;
}

bool is_json_name(std::string_view path) { return path.ends_with(".json"); }

class LabelmeBuilder {
 public:
  explicit LabelmeBuilder(PathContents& contents) : contents_(contents), scan_(contents.tree()) {
    for (const auto image : scan_.images) by_place_.emplace(without_extension(image), image);
    by_name_.insert(scan_.images.begin(), scan_.images.end());
    std::ranges::copy_if(scan_.others, std::back_inserter(files_), is_json_name);
  }

  IndexDraft build() {
    read_all();
    draft_.root = contents_.root();
    draft_.counts = {.images = scan_.images.size()};
    draft_.state.add_all("", scan_, DataState::Names::data_and_json);
    for (std::size_t i = 0; i < files_.size(); ++i) draft_.state.add(std::string(files_[i]), read_[i].state);
    draft_.skipped.add_all(contents_.root(), scan_.unusable);
    for (std::size_t i = 0; i < files_.size(); ++i) take(files_[i], read_[i]);
    std::ranges::sort(images_, {}, &ToolImage::path);
    for (const auto image : scan_.images) {
      if (!used_.contains(image)) draft_.skipped.add_note(full(image), "no JSON file of labelme beside it");
    }
    left_out_.report(contents_.root(), draft_.skipped);
    if (!images_.empty()) add_tool_images(contents_.context(), images_, draft_);
    if (draft_.table.source.empty()) {
      throw path_error(contents_.options(), "found " + std::to_string(scan_.images.size()) + " images and " +
                                                std::to_string(files_.size()) + " JSON files, none usable" +
                                                draft_.skipped.first_bad() +
                                                "; the labelme format needs x.json beside x.jpg");
    }
    return std::move(draft_);
  }

 private:
  [[nodiscard]] std::string full(std::string_view path) const { return join_path(contents_.root(), path); }

  void read_all() {
    read_.resize(files_.size());
    run_parallel({files_.size(), contents_.context().threads, contents_.context().progress},
                 [&](std::size_t i) { read_[i] = read_labelme(full(files_[i])); });
  }

  [[nodiscard]] std::string normal_root() const {
    return std::filesystem::path(contents_.root() + "/").lexically_normal().string();
  }
  // The path that imagePath (`named`) means.
  [[nodiscard]] std::string place_of(std::string_view file, const std::string& named) const {
    return std::filesystem::path(join_path(join_path(normal_root(), parent_folder(file)), named))
        .lexically_normal()
        .string();
  }

  // The image of a JSON file: the one beside it with the same name, else the one that imagePath
  // names (`named`). That comes second, because tools forget to update it when files are renamed.
  // No path may lead out of the dataset's folder.
  [[nodiscard]] std::string_view image_of_file(std::string_view file, const std::string& named) const {
    const auto beside = by_place_.find(without_extension(file));
    if (beside != by_place_.end()) return beside->second;
    const std::string root = normal_root();
    const std::string place = place_of(file, named);
    if (!place.starts_with(root)) return {};
    const auto found = by_name_.find(std::string_view(place).substr(root.size()));
    return found == by_name_.end() ? std::string_view{} : *found;
  }

  void take(std::string_view path, LabelmeFile& file) {
    if (!file.problem.empty()) return draft_.skipped.add_bad(full(path), file.problem);
    ++draft_.counts.annotations;
    const std::string_view image = image_of_file(path, file.image);
    if (image.empty()) {
      const std::string place = place_of(path, file.image);
      std::error_code ignored;
      const bool is_outside = !place.starts_with(normal_root()) && std::filesystem::is_regular_file(place, ignored);
      return draft_.skipped.add_bad(
          full(path), is_outside ? "its image, \"" + printable(file.image) +
                                       "\" (imagePath), is not read from there: dataset.path must be a folder that "
                                       "holds both, with format = \"labelme\""
                                 : "the image is missing: no image of its name beside it, and no \"" +
                                       printable(file.image) + "\" (imagePath)");
    }
    if (!used_.insert(image).second) {
      return draft_.skipped.add_bad(full(path), "another file is of its image: " + std::string(image));
    }
    for (const auto& [kind, count] : file.left_out.counts()) left_out_.add(kind, count);
    file.found.path = image;
    file.found.where = full(path);
    images_.push_back(std::move(file.found));
  }

  PathContents& contents_;
  const Scan& scan_;
  std::vector<std::string_view> files_;
  std::unordered_map<std::string_view, std::string_view> by_place_;
  std::unordered_set<std::string_view> by_name_;
  std::unordered_set<std::string_view> used_;
  std::vector<LabelmeFile> read_;
  std::vector<ToolImage> images_;
  ShapesLeftOut left_out_;
  IndexDraft draft_;
};

// Whether a JSON file beside an image is labelme's. Other tools write JSON beside images, too: the
// search ends after 8 files of another kind.
bool is_labelme(PathContents& contents) {
  if (!contents.is_folder()) return false;
  const Scan& scan = contents.tree();
  if (std::ranges::none_of(scan.others, is_json_name)) return false;
  std::unordered_set<std::string_view> places;
  for (const auto image : scan.images) places.insert(without_extension(image));
  std::size_t looks = 0;
  for (const auto path : scan.others) {
    if (!is_json_name(path) || !places.contains(without_extension(path))) continue;
    if (!read_labelme(join_path(contents.root(), path)).problem.empty()) {
      if (++looks == kFilesLookedAt) return false;
      continue;
    }
    return true;
  }
  return false;
}

IndexDraft build_labelme(PathContents& contents) { return LabelmeBuilder(contents).build(); }

}  // namespace

const Format formats::labelme{.needs = "a folder of images and JSON files of labelme",
                              .path = Format::Path::folder,
                              .detect = is_labelme,
                              .build = build_labelme,
                              .has_objects = true};

}  // namespace forebay::data

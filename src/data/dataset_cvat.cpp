// "CVAT for images 1.1": one XML file with all images of a task.
//
// The file is parsed as a whole on the calling thread. Then several threads check whether each
// image exists, because CVAT exports annotations with or without images. Then add_tool_images makes
// the samples. Rotated boxes and polygons are served as their axis-aligned extent; other shapes are
// counted and left out.

#include <tinyxml2.h>
#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"
#include "build.hpp"
#include "formats.hpp"
#include "parallel.hpp"
#include "store/files.hpp"
#include "tool_images.hpp"
#include "xml_text.hpp"

namespace forebay::data {
namespace {

using tinyxml2::XMLElement;

// Chosen: the tree of an XML text takes several times as much memory.
constexpr std::size_t kLargestCvat = std::size_t{512} << 20U;
constexpr double kDegree = 3.14159265358979323846 / 180;

std::string attribute_of(const XMLElement& element, const char* name) {
  const char* const text = element.Attribute(name);
  return text == nullptr ? "" : text;
}

// Sets `number` and returns true, or sets `problem`.
bool read_attribute(const XMLElement& element, const char* name, double& number, std::string& problem) {
  const std::string text = attribute_of(element, name);
  const auto found = finite_number_in(without_blanks(text));
  if (found) {
    number = *found;
  } else {
    problem = std::string(name) + " \"" + shown_text(text) + "\" is not a number";
  }
  return found.has_value();
}

// The extent of a rotated box's corners. "rotation" is in degrees about the box's centre,
// clockwise; for the extent the direction does not matter.
BoxSides turned_box(const BoxSides& sides, double degrees) {
  if (degrees == 0) return sides;
  const auto [left, top, right, bottom] = sides;
  const double x = (left + right) / 2;
  const double y = (top + bottom) / 2;
  const double cosine = std::fabs(std::cos(degrees * kDegree));
  const double sine = std::fabs(std::sin(degrees * kDegree));
  const double half_width = ((right - left) * cosine + (bottom - top) * sine) / 2;
  const double half_height = ((right - left) * sine + (bottom - top) * cosine) / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

void read_cvat_box(const XMLElement& element, ToolObject& object) {
  auto& [left, top, right, bottom] = object.sides;
  double rotation = 0;
  const bool is_read =
      read_attribute(element, "xtl", left, object.problem) && read_attribute(element, "ytl", top, object.problem) &&
      read_attribute(element, "xbr", right, object.problem) && read_attribute(element, "ybr", bottom, object.problem) &&
      (element.Attribute("rotation") == nullptr || read_attribute(element, "rotation", rotation, object.problem));
  if (is_read) object.sides = turned_box(object.sides, rotation);
}

// Reads points as "x,y;x,y;..." and sets the object's sides to their extent, or its problem.
void read_cvat_points(const XMLElement& element, ToolObject& object) {
  const std::string points = attribute_of(element, "points");
  bool is_first = true;
  for (std::string_view rest = points; !rest.empty();) {
    const std::string_view point = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(point.size() + 1, rest.size()));
    const auto comma = std::min(point.find(','), point.size());
    const auto x = finite_number_in(without_blanks(point.substr(0, comma)));
    const auto y = finite_number_in(without_blanks(point.substr(std::min(comma + 1, point.size()))));
    if (!x || !y) {
      object.problem = "the point \"" + shown_text(point) + "\" is not two numbers";
      return;
    }
    auto& [left, top, right, bottom] = object.sides;
    if (is_first) object.sides = {*x, *y, *x, *y};
    is_first = false;
    object.sides = {std::min(left, *x), std::min(top, *y), std::max(right, *x), std::max(bottom, *y)};
  }
  if (is_first) object.problem = "a polygon without points";
}

// The width or height of an image; 0 if it is not stated.
std::int32_t side_of_image(const XMLElement& element, const char* name) {
  const auto number = finite_number_in(attribute_of(element, name));
  return number && *number >= 1 && *number <= 1e9 ? static_cast<std::int32_t>(*number) : 0;
}

struct CvatFile {
  std::vector<ToolImage> images;
  ShapesLeftOut left_out;
};

ToolImage read_cvat_image(const XMLElement& element, ShapesLeftOut& left_out) {
  ToolImage image{.path = attribute_of(element, "name"), .where = {}};
  std::ranges::replace(image.path, '\\', '/');
  const ImageExtent size{side_of_image(element, "width"), side_of_image(element, "height")};
  if (size.is_known()) image.size = size;
  for (const XMLElement* shape = element.FirstChildElement(); shape != nullptr; shape = shape->NextSiblingElement()) {
    const std::string_view kind = shape->Name();
    if (kind != "box" && kind != "polygon") {
      left_out.add(std::string(kind.substr(0, 40)));
      continue;
    }
    ToolObject object{.name = attribute_of(*shape, "label")};
    kind == "box" ? read_cvat_box(*shape, object) : read_cvat_points(*shape, object);
    image.objects.push_back(std::move(object));
  }
  return image;
}

// "CVAT for video" has tracks in place of images.
CvatFile read_cvat(const std::string& file) {
  const std::vector<std::byte> bytes = store::load_file(file, kLargestCvat);
  tinyxml2::XMLDocument document;
  const XMLElement& root = parse_xml(bytes, "annotations", document);
  if (const XMLElement* track = root.FirstChildElement("track"); track != nullptr) {
    throw SampleError("line " + std::to_string(track->GetLineNum()) +
                      ": tracks of a video; export the task as \"CVAT for images 1.1\"");
  }
  CvatFile cvat;
  for (const XMLElement* image = root.FirstChildElement("image"); image != nullptr;
       image = image->NextSiblingElement("image")) {
    cvat.images.push_back(read_cvat_image(*image, cvat.left_out));
  }
  return cvat;
}

// The likely folders of the images: images/ beside the file, as CVAT exports them, or the file's
// own folder; then the same one level up.
std::vector<std::string> likely_cvat_folders(const std::string& file) {
  const std::string here(parent_folder(file));
  const std::string above(parent_folder(here));
  return {join_path(here, "images"), here, join_path(above, "images"), above};
}

// Why each image cannot be a sample; "" if it can.
std::vector<std::string> problems_of_files(const BuildContext& context, const std::string& folder,
                                           const std::vector<ToolImage>& images) {
  std::vector<std::string> problems(images.size());
  run_parallel({images.size(), context.threads, context.progress}, [&](std::size_t i) {
    const std::string& path = images[i].path;
    problems[i] = path.empty() ? "an image without a name" : store::problem_of_file(join_path(folder, path));
  });
  return problems;
}

// VOC's root is <annotation>, CVAT's <annotations>.
bool is_cvat(PathContents& contents) {
  if (contents.is_folder() || !contents.root().ends_with(".xml")) return false;
  return as_text(contents.head()).find("<annotations") != std::string_view::npos;
}

IndexDraft build_cvat(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  refuse_label_field(options);
  IndexDraft draft;
  naming_path(options, "", [&] {
    CvatFile cvat = read_cvat(contents.root());
    if (cvat.images.empty()) throw SampleError("it has no <image>");
    draft.root = folder_of_images(
        options, contents.root(), likely_cvat_folders(contents.root()), cvat.images.size(),
        [&](std::size_t i) { return cvat.images[i].path; }, join_path);
    draft.counts = {.images = cvat.images.size(), .annotations = 1};
    std::vector<std::string> problems = problems_of_files(contents.context(), draft.root, cvat.images);
    std::unordered_set<std::string> seen;
    std::vector<ToolImage> images;
    for (std::size_t i = 0; i < cvat.images.size(); ++i) {
      ToolImage& image = cvat.images[i];
      image.where = contents.root() + "#" + printable(image.path);
      if (problems[i].empty() && !seen.insert(image.path).second) problems[i] = "another image has its name";
      if (problems[i].empty()) {
        images.push_back(std::move(image));
      } else {
        draft.skipped.add_bad(image.where, std::move(problems[i]));
      }
    }
    cvat.left_out.report(contents.root(), draft.skipped);
    add_tool_images(contents.context(), images, draft);
  });
  if (draft.table.source.empty()) {
    throw path_error(options, "found " + std::to_string(draft.counts.images) + " images and " +
                                  std::to_string(draft.counts.objects) + " boxes and polygons, none usable" +
                                  draft.skipped.first_bad());
  }
  return draft;
}

std::uint64_t hash_cvat(const DatasetOptions& options) { return hash_file(options.path, "dataset.path", 0); }

}  // namespace

const Format formats::cvat{.needs = "an XML file of CVAT for images",
                           .path = Format::Path::file,
                           .detect = is_cvat,
                           .build = build_cvat,
                           .hash = hash_cvat,
                           .hashed = "the file",
                           .chooses_image = true,
                           .has_objects = true};

}  // namespace forebay::data

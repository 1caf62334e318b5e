// Parses a Pascal VOC or ILSVRC annotation into the objects of an image, each with its name, box
// and flags. xml_text.cpp builds the XML tree.
//
// VOC coordinates count pixels from 1 and include the last one: xmin = 1 and xmax = width is the
// whole image. Here boxes begin at 0 and are half open, so 1 is subtracted from the lower corner
// only. Fractional coordinates, which some tools write, are rounded outward. An unusable object
// gets a problem and keeps its number; the others are used.
//
// Stateless; called on any thread of an index build.

#include "annotation.hpp"

#include <tinyxml2.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "xml_text.hpp"

namespace forebay::data {
namespace {

using tinyxml2::XMLDocument;
using tinyxml2::XMLElement;
using tinyxml2::XMLNode;

// Longer than any class name of a real dataset, and short enough that a list of classes stays small.
constexpr std::size_t kLongestClass = 256;
// Far larger than any image, far below the limit of std::int32_t.
constexpr double kLargestCoordinate = 1e9;

// The text of an element, including CDATA but not comments. Surrounding blanks are trimmed, because
// pretty-printers add them.
std::string text_of(const XMLElement& element) {
  std::string text;
  for (const XMLNode* node = element.FirstChild(); node != nullptr; node = node->NextSibling()) {
    if (node->ToText() != nullptr) text += node->Value();
  }
  return std::string(without_blanks(text));
}

std::string text_of_child(const XMLElement& parent, const char* name) {
  const XMLElement* child = parent.FirstChildElement(name);
  return child == nullptr ? std::string{} : text_of(*child);
}

// VOC writes 0 and 1; other tools write words. A missing element means false.
bool flag_of_child(const XMLElement& parent, const char* name) {
  const std::string text = text_of_child(parent, name);
  return text == "1" || text == "true" || text == "True";
}

// The width or height of an image; 0 unless the element holds a whole number of pixels.
std::int32_t side_of_child(const XMLElement& size, const char* name) {
  const double side = finite_number_in(text_of_child(size, name)).value_or(0);
  return side >= 1 && side <= kLargestCoordinate && side == std::floor(side) ? static_cast<std::int32_t>(side) : 0;
}

// The four numbers of a <bndbox>, as written in the file.
struct Corners {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
};

// Sets `coordinate` and returns "", or returns what is wrong with it.
std::string read_coordinate(const XMLElement& bndbox, const char* name, double& coordinate) {
  const XMLElement* element = bndbox.FirstChildElement(name);
  if (element == nullptr) return std::string("<bndbox> without <") + name + ">";
  const std::string text = text_of(*element);
  const auto value = finite_number_in(text);
  if (!value) return std::string(name) + " \"" + shown_text(text) + "\" is not a number";
  if (std::abs(*value) > kLargestCoordinate) return std::string(name) + " " + shown_text(text) + " is beyond any image";
  coordinate = *value;
  return {};
}

std::string read_corners(const XMLElement& bndbox, Corners& corners) {
  const std::array<std::pair<const char*, double*>, 4> wanted{
      {{"xmin", &corners.xmin}, {"ymin", &corners.ymin}, {"xmax", &corners.xmax}, {"ymax", &corners.ymax}}};
  for (const auto& [name, coordinate] : wanted) {
    if (auto problem = read_coordinate(bndbox, name, *coordinate); !problem.empty()) return problem;
  }
  return {};
}

// Messages quote the file's text rather than the parsed numbers, so that users can search for it.
std::string check_order(const XMLElement& bndbox, const char* low_name, double low, const char* high_name,
                        double high) {
  if (low < high && high > 0) return {};
  const std::string low_text = std::string(low_name) + " " + shown_text(text_of_child(bndbox, low_name));
  const std::string high_text = std::string(high_name) + " " + shown_text(text_of_child(bndbox, high_name));
  if (low < high) return high_text + " is outside the image";
  if (low > high) return low_text + " > " + high_text;
  return low_text + " = " + high_text + ", a box without area";
}

// Sets `sides` and returns "", or returns what is wrong with the box.
std::string read_box(const XMLElement& object, BoxSides& sides) {
  const XMLElement* bndbox = object.FirstChildElement("bndbox");
  if (bndbox == nullptr) return "no <bndbox>";
  if (bndbox->NextSiblingElement("bndbox") != nullptr) return "more than one <bndbox>";
  Corners corners;
  if (auto problem = read_corners(*bndbox, corners); !problem.empty()) return problem;
  if (auto problem = check_order(*bndbox, "xmin", corners.xmin, "xmax", corners.xmax); !problem.empty()) return problem;
  if (auto problem = check_order(*bndbox, "ymin", corners.ymin, "ymax", corners.ymax); !problem.empty()) return problem;
  sides = {std::max(corners.xmin - 1, 0.0), std::max(corners.ymin - 1, 0.0), corners.xmax, corners.ymax};
  return {};
}

// A missing or overlong name is the more serious problem, so it replaces that of the box.
AnnotatedObject read_object(const XMLElement& element) {
  AnnotatedObject object;
  object.name = text_of_child(element, "name");
  object.difficult = flag_of_child(element, "difficult");
  object.truncated = flag_of_child(element, "truncated");
  object.problem = read_box(element, object.sides);
  object.box = pixels_of(object.sides);
  if (object.name.empty()) object.problem = "no <name>";
  if (object.name.size() > kLongestClass) {
    object.problem = "a <name> of " + std::to_string(object.name.size()) + " bytes";
    object.name.clear();
  }
  return object;
}

}  // namespace

Annotation parse_annotation(std::span<const std::byte> xml) {
  XMLDocument document;
  const XMLElement& root = parse_xml(xml, "annotation", document);

  Annotation annotation;
  annotation.filename = text_of_child(root, "filename");
  if (const XMLElement* size = root.FirstChildElement("size")) {
    annotation.size = {side_of_child(*size, "width"), side_of_child(*size, "height")};
  }
  for (const XMLElement* element = root.FirstChildElement("object"); element != nullptr;
       element = element->NextSiblingElement("object")) {
    annotation.objects.push_back(read_object(*element));
  }
  return annotation;
}

}  // namespace forebay::data

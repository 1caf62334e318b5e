#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "object_samples.hpp"

namespace forebay::data {

// One object of a YOLO label file.
struct YoloObject {
  std::int32_t number = 0;  // of its class
  std::uint32_t line = 0;   // from 1
  BoxSides sides{};         // as shares of the image's width and height; may reach a hundredth past it
};

// All objects of an image, or why none can be trusted: ultralytics leaves out an image of whose labels one is wrong.
struct YoloLabels {
  std::vector<YoloObject> objects;
  std::string problem;            // "line 3: ..."; "" = there is none
  std::uint32_t duplicates = 0;   // lines that repeat an earlier one, which are left out
  bool may_be_keypoints = false;  // the lines with polygons could also be a box and points in it
  bool has_polygons = false;
};

// What the lines of a label file must be like.
struct YoloRules {
  std::size_t classes = 0;           // 0: unknown
  std::size_t keypoint_numbers = 0;  // behind the four of the box, which is all that is used of such a line
};

// Reads lines of "class x y width height" (the centre of a box) and of "class x y x y x y ..." (a polygon, whose
// extent is the box; so are boxes with four corners), all as shares of the image as it is displayed.
[[nodiscard]] YoloLabels parse_yolo_labels(std::string_view text, const YoloRules& rules);

}  // namespace forebay::data

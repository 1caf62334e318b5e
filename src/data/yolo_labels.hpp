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
  std::int32_t number = 0;  // class number
  std::uint32_t line = 0;   // from 1
  BoxSides sides{};         // as fractions of the image's width and height; may reach 0.01 beyond
};

// All objects of an image, or why none can be trusted: like ultralytics, an image with one wrong label is left out.
struct YoloLabels {
  std::vector<YoloObject> objects;
  std::string problem;            // "line 3: ..."; "" if there is none
  std::uint32_t duplicates = 0;   // lines that repeat an earlier one, which are left out
  bool may_be_keypoints = false;  // the lines with polygons could also be a box and points in it
  bool has_polygons = false;
};

// What the lines of a label file must conform to.
struct YoloRules {
  std::size_t classes = 0;           // 0: unknown
  std::size_t keypoint_numbers = 0;  // after the four of the box, which alone are used
};

// Reads lines of "class x y width height" (a box by its centre) and of "class x y x y x y ..." (a polygon, whose extent
// is the box; likewise boxes with four corners), all as fractions of the displayed image.
[[nodiscard]] YoloLabels parse_yolo_labels(std::string_view text, const YoloRules& rules);

}  // namespace forebay::data

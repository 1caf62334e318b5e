#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "object_samples.hpp"

namespace forebay::data {

// One <object> of a Pascal VOC / ILSVRC annotation.
struct AnnotatedObject {
  std::string name;  // class
  BoxSides sides{};  // 0-based, half open; meaningful when problem is empty
  Box box;           // all pixels that it touches
  bool difficult = false;
  bool truncated = false;
  std::string problem;  // why the object cannot be used ("xmin 40 > xmax 20"); empty = usable
};

struct Annotation {
  std::string filename;  // the <filename> element, may be empty or without extension
  ImageExtent size;      // the <size> element
  std::vector<AnnotatedObject> objects;
};

// Parses a VOC / ILSVRC annotation. VOC coordinates are 1-based inclusive pixel indices (VOC2012 development kit,
// section 4.3); a box (xmin, ymin, xmax, ymax) becomes [xmin - 1, xmax) x [ymin - 1, ymax), lower bound clamped to 0,
// as detectron2 does. A box with xmin >= xmax or ymin >= ymax has no area in the tools that write these files and is
// reported as a problem of that object.
// Throws SampleError with line and reason for a document that is not a usable annotation: not well-formed, a DOCTYPE
// or ENTITY declaration (refused whole: entity bombs, external entities), nested too deep, no <annotation> root.
[[nodiscard]] Annotation parse_annotation(std::span<const std::byte> xml);

}  // namespace forebay::data

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "fields.hpp"
#include "record_table.hpp"
#include "stated_sizes.hpp"

namespace forebay::data {

// The name for the objects of images in [fields.NAME]: their boxes and classes.
inline constexpr std::string_view kObjects = "objects";

// An object of an image, as a format found it.
struct FoundObject {
  RecordTable::Region region;  // its box in whole pixels
  LabelledBox box;             // the same, perhaps in fractions, with its class
};

// Makes samples from images and their objects, as dataset.samples says: one per object, or one per image with its
// objects in fields of kind "boxes" or "multilabel". One thread.
class ObjectSamples {
 public:
  // `classes`: of the objects. Throws ConfigError naming the section of a field that objects do not have.
  ObjectSamples(const DatasetOptions& options, std::vector<std::string> classes);

  [[nodiscard]] bool are_images() const noexcept { return are_images_; }
  // Adds an image with those of its objects that are to be served, perhaps none. The label of an image sample is the
  // class of its objects, or -1 if they differ or there are none. `size`: of the image, as its annotation states it.
  void add(std::string_view image, std::span<const FoundObject> objects, StatedSize size, RecordTable& table);
  // Hands over classes and fields. REQUIRES: add() is not called afterwards. Throws ConfigError naming the section of a
  // multilabel field if there are no classes.
  void finish(RecordTable& table);
  // As StatedSizes::left_out().
  [[nodiscard]] std::uint64_t sizes_left_out() const noexcept { return sizes_.left_out(); }

 private:
  void add_values(RecordTable::FieldColumn& column, std::span<const FoundObject> objects) const;

  [[nodiscard]] bool has_boxes() const noexcept;

  bool are_images_;
  std::vector<std::string> classes_;
  std::vector<RecordTable::FieldColumn> fields_;
  StatedSizes sizes_;
};

// Left, top, right and bottom of a box, as a file has them.
using BoxSides = std::array<double, 4>;
// Whether they are shares of an image rather than pixels: none is beyond 1, and one is no whole number.
[[nodiscard]] bool seems_to_be_shares(const BoxSides& sides) noexcept;
// Why they cannot be an object: "has no area"; "" if they can. Boxes that extend past the image are clamped later.
[[nodiscard]] std::string problem_of_box(const BoxSides& sides);
// REQUIRES: they have no problem.
[[nodiscard]] LabelledBox labelled_box(const BoxSides& sides, std::int32_t label) noexcept;
// The whole pixels that it touches.
[[nodiscard]] Box pixels_of(const BoxSides& sides) noexcept;

// The common class of all objects; -1 if they differ or there are none.
[[nodiscard]] std::int32_t common_class(std::span<const FoundObject> objects) noexcept;

}  // namespace forebay::data

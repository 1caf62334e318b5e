#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "fields.hpp"
#include "record_table.hpp"

namespace forebay::data {

// The size of an image as its annotation states it. An annotation's boxes are of an image of this size, which tells
// whether the EXIF orientation has turned it.
struct StatedSize {
  std::int32_t width = 0;  // 0: not stated
  std::int32_t height = 0;

  [[nodiscard]] bool is_known() const noexcept { return width > 0 && height > 0; }
  friend bool operator==(const StatedSize&, const StatedSize&) = default;
};

// The number of a kind in a list that `numbers` has the numbers of; a new one is appended. Where there is no room for
// one more stated size, the kind without it. Nothing where the list is full.
[[nodiscard]] std::optional<std::uint16_t> number_of_kind(RecordTable::Kind kind, std::vector<RecordTable::Kind>& kinds,
                                                          std::map<RecordTable::Kind, std::uint16_t>& numbers);

// The kind of an image file whose annotation states this size; where it is no size, of one without.
[[nodiscard]] RecordTable::Kind kind_of_size(std::int64_t width, std::int64_t height) noexcept;

// What the kind says of a sample.
[[nodiscard]] Sample sample_of(const RecordTable::Kind& kind) noexcept;

// Writes stated sizes into a table, as kinds of its samples. One thread.
class StatedSizes {
 public:
  // Of the samples from `first` on, which are image files and the last that the table has.
  void note(StatedSize size, std::size_t first, RecordTable& table);

  // Samples whose size was stated and is not in the table: there are more sizes than kinds.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  [[nodiscard]] std::uint16_t kind_of(StatedSize size, RecordTable& table);

  std::map<RecordTable::Kind, std::uint16_t> numbers_;
  std::uint64_t left_out_ = 0;
};

// What an index notes where samples were left out.
[[nodiscard]] std::string sizes_left_out_note(std::uint64_t samples);

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

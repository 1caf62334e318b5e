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
#include "image_size.hpp"
#include "record_table.hpp"

namespace forebay::data {

// The number of a kind in the list, to which a new kind is appended; `numbers` maps kinds to their
// numbers. If there is no room for another stated size, returns the number of the same kind without
// a size. Nothing if the list is full.
[[nodiscard]] std::optional<std::uint16_t> number_of_kind(RecordTable::Kind kind, std::vector<RecordTable::Kind>& kinds,
                                                          std::map<RecordTable::Kind, std::uint16_t>& numbers);

// The kind of an image file whose annotation states this size; if it is invalid, that of a file without a stated size.
[[nodiscard]] RecordTable::Kind kind_of_size(std::int64_t width, std::int64_t height) noexcept;

// A sample of this kind.
[[nodiscard]] Sample sample_of(const RecordTable::Kind& kind) noexcept;

// Writes the sizes of images that annotations state into a table, as kinds of its samples. An annotation's boxes refer
// to an image of this size, which reveals whether the EXIF orientation was applied. One thread.
class StatedSizes {
 public:
  // Sets the size for the samples from `first` to the last in the table, which are image files.
  void note(ImageExtent size, std::size_t first, RecordTable& table);

  // The number of samples whose stated size is not in the table, because there are more sizes than kinds.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  [[nodiscard]] std::uint16_t kind_of(ImageExtent size, RecordTable& table);

  std::map<RecordTable::Kind, std::uint16_t> numbers_;
  std::uint64_t left_out_ = 0;
};

// The note of an index whose samples were left out in this way.
[[nodiscard]] std::string sizes_left_out_note(std::uint64_t samples);

// The name for the objects of images in [fields.NAME]: their boxes and classes.
inline constexpr std::string_view kObjects = "objects";

// An object of an image, as found by a format.
struct FoundObject {
  RecordTable::Region region;  // its box in whole pixels
  LabelledBox box;             // the same, perhaps in fractions, with its class
};

// Makes samples from images and their objects according to dataset.samples: one per object, or one per image with its
// objects in fields of kind "boxes" or "multilabel". One thread.
class ObjectSamples {
 public:
  // `classes`: those of the objects. Throws ConfigError naming the section of a field that objects do not have.
  ObjectSamples(const DatasetOptions& options, std::vector<std::string> classes);

  [[nodiscard]] bool are_images() const noexcept { return are_images_; }
  // Adds an image with the objects to be served, perhaps none. The label of an image sample is the common class of its
  // objects, or -1 if they differ or there are none. `size`: the image's size as stated by its annotation.
  void add(std::string_view image, std::span<const FoundObject> objects, ImageExtent size, RecordTable& table);
  // Hands over classes and fields. REQUIRES: add() is not called afterwards. Throws ConfigError naming the section of a
  // multilabel field if there are no classes.
  void finish(RecordTable& table);
  // See StatedSizes::left_out().
  [[nodiscard]] std::uint64_t sizes_left_out() const noexcept { return sizes_.left_out(); }

 private:
  void add_values(RecordTable::FieldColumn& column, std::span<const FoundObject> objects) const;

  [[nodiscard]] bool has_boxes() const noexcept;

  bool are_images_;
  std::vector<std::string> classes_;
  std::vector<RecordTable::FieldColumn> fields_;
  StatedSizes sizes_;
};

// Left, top, right and bottom of a box, as given in a file.
using BoxSides = std::array<double, 4>;
// Whether they seem to be fractions of an image rather than pixels: none exceeds 1, and at least one is not a whole
// number.
[[nodiscard]] bool seems_to_be_shares(const BoxSides& sides) noexcept;
// Why they cannot be an object: "has no area"; "" if they can. Boxes that extend past the image are clamped later.
[[nodiscard]] std::string problem_of_box(const BoxSides& sides);
// REQUIRES: problem_of_box() is empty.
[[nodiscard]] LabelledBox labelled_box(const BoxSides& sides, std::int32_t label) noexcept;
// The smallest box of whole pixels that contains it.
[[nodiscard]] Box pixels_of(const BoxSides& sides) noexcept;

// The common class of all objects; -1 if they differ or there are none.
[[nodiscard]] std::int32_t common_class(std::span<const FoundObject> objects) noexcept;

}  // namespace forebay::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include "coco_file.hpp"
#include "drawn_mask.hpp"
#include "record_table.hpp"

namespace forebay::data {

// Mask fields drawn from the segmentation of objects in a COCO file: of all objects of an image, later ones covering
// earlier ones, or of the single object that is the sample. One thread.
class CocoMaskFields {
 public:
  // Whether a section requests such a mask: from = "segmentation".
  [[nodiscard]] static bool is_one(const FieldOptions& field) noexcept;
  // Throws ConfigError naming the section if the field cannot be such a mask.
  static void require_mask(const FieldOptions& field);
  [[nodiscard]] static CocoMasks wanted(const DatasetOptions& options) noexcept;

  // Throws ConfigError naming the section of a field whose pixels cannot hold that many classes.
  CocoMaskFields(const DatasetOptions& options, const std::vector<std::string>& classes);

  [[nodiscard]] bool empty() const noexcept { return columns_.empty(); }
  // What is wrong with an object's shapes in this image; "" if nothing.
  [[nodiscard]] static std::string problem_of(std::span<const std::byte> shapes, const CocoFile::Image& image);

  // Called for each served image, followed by its objects in order. The shapes must stay valid until end_image().
  void begin_image(const CocoFile::Image& image);
  void add_crowd(std::span<const std::byte> shapes) { crowds_.push_back(shapes); }
  void add_object(std::int32_t label, std::span<const std::byte> shapes) { objects_.emplace_back(label, shapes); }
  void end_image();
  // Hands over the fields. REQUIRES: nothing is called afterwards.
  void finish(RecordTable& table);

 private:
  void add_values(const MaskDrawing& drawing);

  bool are_images_;
  std::vector<RecordTable::FieldColumn> columns_;
  CocoFile::Image image_;
  std::vector<std::span<const std::byte>> crowds_;
  std::vector<std::pair<std::int32_t, std::span<const std::byte>>> objects_;
};

// Reads the "segmentation" of successive annotations from the events of a JSON parser: polygons, or runs of pixels
// (RLE) as a list of numbers or in pycocotools' text form. One thread.
class CocoSegmentation {
 public:
  // The value of an annotation's "segmentation" begins.
  void begin();
  // The events within the value, beginning with open() for its own list or object.
  void open(bool is_list);
  void close();
  void key(std::string_view name);
  void number(bool is_whole, double value);
  void text(std::string_view text);
  void other();

  // What is wrong with what was read since begin(); "" if nothing.
  [[nodiscard]] std::string problem();
  // The shapes, for MaskDrawing::add(). REQUIRES: problem() was empty.
  [[nodiscard]] const std::vector<std::byte>& shapes() const noexcept { return shapes_; }
  // The number of polygons with fewer than three corners in all annotations; they are left out.
  [[nodiscard]] std::uint64_t slivers() const noexcept { return slivers_; }

 private:
  enum class Member : std::uint8_t { none, counts, size };

  void fail(std::string problem);
  void end_shape();
  void end_polygon();
  void end_runs();

  std::vector<std::byte> shapes_;
  std::string problem_;
  std::uint64_t slivers_ = 0;
  unsigned depth_ = 0;
  bool is_list_ = false;  // a list of polygons; else runs
  Member member_ = Member::none;
  std::vector<double> numbers_;  // of a polygon, or of the counts
  std::vector<double> size_;
  std::size_t polygons_ = 0;
  bool is_read_ = false;  // whether there was a list or an object at all
  MaskShape shape_;
};

// Decodes run counts in pycocotools' text form. Throws SampleError for an invalid text.
[[nodiscard]] std::vector<std::uint32_t> runs_in_text(std::string_view text);

// The size of the image that an annotation's runs refer to; 0 x 0 for polygons. REQUIRES: bytes from shapes().
struct RunsSize {
  std::int32_t width = 0;
  std::int32_t height = 0;
};
[[nodiscard]] RunsSize size_of_runs(std::span<const std::byte> shapes);

}  // namespace forebay::data

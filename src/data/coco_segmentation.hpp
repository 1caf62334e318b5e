#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "drawn_mask.hpp"

namespace forebay::data {

// Reads the "segmentation" of one annotation after the other, from the events of a JSON parser: polygons, or runs of
// pixels (RLE), as a list of numbers or as pycocotools' text. One thread.
class CocoSegmentation {
 public:
  // The value of an annotation's "segmentation" begins.
  void begin();
  // Events within it; its own list or object is the first to open.
  void open(bool is_list);
  void close();
  void key(std::string_view name);
  void number(bool is_whole, double value);
  void text(std::string_view text);
  void other();

  // What is wrong with what was read since begin(); "" if nothing is.
  [[nodiscard]] std::string problem();
  // The shapes, for MaskDrawing::add(). REQUIRES: problem() was empty.
  [[nodiscard]] const std::vector<std::byte>& shapes() const noexcept { return shapes_; }
  // Polygons of fewer than three corners, which are left out, in all annotations.
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
  bool is_list_ = false;  // of polygons; else runs
  Member member_ = Member::none;
  std::vector<double> numbers_;  // of a polygon, or of the counts
  std::vector<double> size_;
  std::size_t polygons_ = 0;
  bool is_read_ = false;  // whether there was a list or an object at all
  MaskShape shape_;
};

// The counts in pycocotools' text of them. Throws SampleError for a text that is none.
[[nodiscard]] std::vector<std::uint32_t> runs_in_text(std::string_view text);

// The size of the image that the runs of an annotation are for; 0 x 0 for polygons. REQUIRES: bytes of shapes().
struct RunsSize {
  std::int32_t width = 0;
  std::int32_t height = 0;
};
[[nodiscard]] RunsSize size_of_runs(std::span<const std::byte> shapes);

}  // namespace forebay::data

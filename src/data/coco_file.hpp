#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "scan.hpp"

namespace forebay::data {

// The contents of a COCO instances file. List elements without an id, a name or a box are in `bad`; nothing else has
// been checked.
struct CocoFile {
  // An element's index in its list, and its id if it has one.
  struct Place {
    std::int64_t id = 0;
    std::uint32_t number = 0;  // in its list, from 0
    bool has_id = false;
  };
  struct Image {
    Place place;
    std::uint32_t path = 0;  // into `paths`
    std::int32_t width = 0;  // 0 if not stated
    std::int32_t height = 0;
  };
  struct Object {
    Place place;
    bool is_crowd = false;
    std::int64_t image = 0;  // the ids of its image and category
    std::int64_t category = 0;
    std::array<double, 4> box{};  // x, y, width, height; finite
  };
  // The segmentation of an object: bytes in `shapes`, for MaskDrawing::add().
  struct Shapes {
    std::uint64_t begin = 0;
    std::uint32_t bytes = 0;
  };
  struct Category {
    Place place;
    std::string name;
  };
  struct Bad {
    std::string where;  // "annotation 17" by its id, "annotations[3]" without one
    std::string reason;
  };

  bool has_images = false;  // whether there is such a list at all
  PathList paths;
  std::vector<Image> images;
  std::vector<Object> objects;
  std::vector<Category> categories;
  // Filled only with CocoMasks::all.
  std::vector<Shapes> shapes_of;  // by object
  std::vector<std::byte> shapes;
  std::uint64_t slivers = 0;  // polygons of fewer than three corners, which have no shape
  // The length of each list, bad elements included.
  std::uint64_t all_images = 0;
  std::uint64_t all_objects = 0;
  std::vector<Bad> bad;
  std::uint64_t more_bad = 0;  // beyond the first kBadNamed
  static constexpr std::size_t kBadNamed = 10'000;

  // REQUIRES: the file was read with CocoMasks::all.
  [[nodiscard]] std::span<const std::byte> shapes_at(std::size_t object) const noexcept {
    return std::span(shapes).subspan(shapes_of[object].begin, shapes_of[object].bytes);
  }

  void add_bad(std::string where, std::string reason);
  // The name of an element in messages; `kind` is "image", "annotation" or "category".
  [[nodiscard]] static std::string name_of(const char* kind, const Place& place);
};

enum class CocoMasks : bool { none, all };

// Parses the file as a stream, including the objects' segmentation if `masks` is set; besides the
// result it needs only memory for the longest text in the file. `progress` receives the number of
// elements and the share of bytes read so far. Throws SampleError, with the byte, for a file that
// is not JSON, not COCO, or nested deeper than any COCO file. One thread.
[[nodiscard]] CocoFile read_coco(const OpenFile& file,
                                 const std::function<void(std::uint64_t elements, double share)>& progress,
                                 CocoMasks masks = CocoMasks::none);

}  // namespace forebay::data

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include "coco_file.hpp"
#include "drawn_mask.hpp"
#include "record_table.hpp"

namespace forebay::data {

// The fields of masks that are drawn from the segmentation of a COCO file's objects: of all objects of an image, where
// later ones cover earlier ones, or of the one object that a sample is. One thread.
class CocoMaskFields {
 public:
  // Whether a section asks for such a mask: from = "segmentation".
  [[nodiscard]] static bool is_one(const FieldOptions& field) noexcept;
  // Throws ConfigError naming the section of one that cannot be such a mask.
  static void require_mask(const FieldOptions& field);
  [[nodiscard]] static CocoMasks wanted(const DatasetOptions& options) noexcept;

  // Throws ConfigError naming the section of a field whose pixels cannot be that many classes.
  CocoMaskFields(const DatasetOptions& options, const std::vector<std::string>& classes);

  [[nodiscard]] bool empty() const noexcept { return columns_.empty(); }
  // What is wrong with the shapes of an object of this image; "" if nothing is.
  [[nodiscard]] static std::string problem_of(std::span<const std::byte> shapes, const CocoFile::Image& image);

  // For each image that is served: its objects in their order. The shapes must stay until end_image().
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

}  // namespace forebay::data

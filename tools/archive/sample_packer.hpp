#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/pack_shard.hpp"
#include "make/image.hpp"
#include "make/image_decoder.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/packed_file.hpp"
#include "make/resizer.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack_plan.hpp"

namespace forebay::archive {

inline constexpr std::string_view kPackTables = "codec.tables";

// The tables for packing the JPEG files of a dataset: those in the folder, or else new ones made
// from some of its images, the same whoever makes them. Empty if none of these images can be
// packed. Throws Error, or ConfigError for damaged tables, naming the file.
[[nodiscard]] std::vector<std::byte> tables_for_pack(const Dataset& dataset, const PackSettings& settings);

// A sample as a shard stores it.
struct PackedSample {
  struct InField {
    std::vector<std::byte> bytes;
    bool is_absent = false;
    std::string problem;  // why it could not be read; "" if the file is missing or empty
    std::string file;     // PackOriginals::files
  };

  bool shares = false;  // shares the record of the sample before; then image and fields of files are empty
  std::string problem;  // why it is left out (its image cannot be read); else ""
  std::vector<std::byte> image;
  data::PackStored stored = data::PackStored::as_is;
  data::RecordTable::Kind kind;
  data::Hash128 hash;       // of the original, or of the pixels if those are stored
  std::uint64_t bytes = 0;  // of the original
  std::uint32_t width = 0;  // as displayed, 0 if unknown
  std::uint32_t height = 0;
  std::uint8_t orientation = 0;
  std::vector<InField> fields;  // as in dataset.fields()

  // Bytes of image and fields.
  [[nodiscard]] std::uint64_t memory() const noexcept;
};

// Turns samples of a dataset into samples of a shard. The result depends only on the sample and the
// settings. Used by one thread; memory is reused from sample to sample.
class SamplePacker {
 public:
  // All must outlive it. `tables`: tables_for_pack().
  SamplePacker(const Dataset& dataset, const PackSettings& settings, std::span<const std::byte> tables);
  SamplePacker(const SamplePacker&) = delete;
  SamplePacker& operator=(const SamplePacker&) = delete;

  // `shares`: see shares_record(). Throws Error, naming the sample, if the store keeps failing.
  [[nodiscard]] PackedSample pack(std::uint64_t id, bool shares);
  // If the field is absent, the reason as in PackedSample::InField::problem; nothing if it can be
  // read. `field` must be one stored as bytes. Throws as pack() does.
  [[nodiscard]] std::optional<std::string> absence(std::uint64_t id, std::size_t field) const;

 private:
  void read_image(std::uint64_t id, PackedSample& packed);
  void read_fields(std::uint64_t id, PackedSample& packed) const;
  void read_field(std::uint64_t id, std::size_t number, PackedSample::InField& field) const;
  [[nodiscard]] std::string file_of_field(std::uint64_t id, std::size_t field) const;
  void note_size(PackedSample& packed);
  // Replaces a JPEG file by its coefficients if they are not much larger and restore the file and
  // its pixels exactly.
  void make_coefficients(PackedSample& packed);
  // Replaces the image by its pixels if it can be decoded.
  void make_pixels(const Sample& sample, PackedSample& packed);

  const Dataset& dataset_;
  const PackSettings& settings_;
  std::string below_;  // the dataset's root, with a slash
  make::JpegDecoder jpeg_;
  make::ImageDecoder decoder_;
  make::Image image_;
  make::TableCache tables_;
  make::ImageDecoder packed_decoder_;
  make::Image packed_image_;
  std::optional<pack::JpegPacker> packer_;
  make::Resizer resizer_;
};

}  // namespace forebay::archive

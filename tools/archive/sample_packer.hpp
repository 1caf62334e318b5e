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

// The tables with which the JPEG files of a dataset are packed: those in the folder, or, at the first time, new ones
// made of some of its images, the same whoever makes them. Nothing if none of these images can be packed. Throws Error,
// or ConfigError for damaged tables, naming the file.
[[nodiscard]] std::vector<std::byte> tables_for_pack(const Dataset& dataset, const PackSettings& settings);

// A sample as a shard stores it.
struct PackedSample {
  struct InField {
    std::vector<std::byte> bytes;
    bool is_absent = false;
    std::string problem;  // why it is absent although there is something; "" for a file that is missing or empty
    std::string file;     // PackOriginals::files
  };

  bool shares = false;  // the record of the sample before; then it has no image, and no fields that are files
  std::string problem;  // why it is left out: its image cannot be read; else ""
  std::vector<std::byte> image;
  data::PackStored stored = data::PackStored::as_is;
  data::RecordTable::Kind kind;
  data::Hash128 hash;       // of the original, or of the pixels
  std::uint64_t bytes = 0;  // of the original
  std::uint32_t width = 0;  // as displayed, 0 if unknown
  std::uint32_t height = 0;
  std::uint8_t orientation = 0;
  std::vector<InField> fields;  // as in dataset.fields()

  // Of all that it has in memory.
  [[nodiscard]] std::uint64_t memory() const noexcept;
};

// Makes shards' samples of a dataset's. What it makes depends on the sample and the settings alone. One thread; its
// memory is reused from sample to sample.
class SamplePacker {
 public:
  // All must outlive it. `tables`: tables_for_pack().
  SamplePacker(const Dataset& dataset, const PackSettings& settings, std::span<const std::byte> tables);
  SamplePacker(const SamplePacker&) = delete;
  SamplePacker& operator=(const SamplePacker&) = delete;

  // `shares`: shares_record(). Throws Error, naming the sample, if the store fails again and again.
  [[nodiscard]] PackedSample pack(std::uint64_t id, bool shares);
  // PackedSample::InField::problem, if the field is absent. `field`: one of bytes. Throws as pack() does.
  [[nodiscard]] std::optional<std::string> absence(std::uint64_t id, std::size_t field) const;

 private:
  void read_image(std::uint64_t id, PackedSample& packed);
  void read_fields(std::uint64_t id, PackedSample& packed) const;
  void read_field(std::uint64_t id, std::size_t number, PackedSample::InField& field) const;
  [[nodiscard]] std::string file_of_field(std::uint64_t id, std::size_t field) const;
  void note_size(PackedSample& packed);
  // Replaces a JPEG file by its coefficients, if they are not much larger, and file and pixels come back as they were.
  void make_coefficients(PackedSample& packed);
  // Replaces the image by its pixels, if it can be decoded.
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

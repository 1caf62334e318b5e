// Reads one sample of a dataset and decides how it is stored: as it is, as JPEG coefficients in a
// denser code, or as pixels of a bounded size. Each thread has its own packer (Lending), since
// decoders have state.
//
// Storing coefficients loses nothing: JpegPacker has restored the file and compared it, and
// make_coefficients() checks that both ways of decoding give the same pixels. Otherwise the file
// stays as it is. A sample that no run could use is stored as it is, and remains a bad sample.
// Errors of the store end packing, because what cannot be read now may be readable later.

#include "sample_packer.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <sys/stat.h>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "data/fields.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/image.hpp"
#include "make/signature.hpp"
#include "pack/pack_tables.hpp"
#include "part_file.hpp"
#include "sample_bytes.hpp"

namespace forebay::archive {
namespace {

namespace fs = std::filesystem;

// Chosen, both.
constexpr std::uint64_t kTrainedOn = 256;                          // images, spread over the dataset
constexpr std::size_t kLargestTrainedOn = std::size_t{16} << 20U;  // bytes of one

std::vector<std::byte> read_tables(const fs::path& file) {
  try {
    std::vector<std::byte> bytes = load_file(file.string(), data::kLargestPackTables);
    if (!bytes.empty()) (void)pack::PackTables::from_bytes(bytes);
    return bytes;
  } catch (const Error& error) {
    throw ConfigError(file.string() + ": " + error.what() + "; remove the folder, or name another");
  }
}

// The bytes of a JPEG file that may be packed; nothing for other images. Throws SampleError; Error
// if the store keeps failing.
std::optional<std::vector<std::byte>> jpeg_file(const Dataset& dataset, std::uint64_t id,
                                                const StorePatience& patience) {
  if (dataset.sample(id).encoding != Encoding::image) return std::nullopt;
  std::vector<std::byte> bytes;
  try {
    bytes = bytes_by(patience, dataset, id, [&](ReadTarget& target) { dataset.read(id, target); });
  } catch (const SampleError& error) {
    if (error.is_transient()) end_for_store(dataset.name(id), error);
    throw;
  }
  if (make::starts_as_jpeg(bytes) && bytes.size() <= kLargestTrainedOn) return bytes;
  return std::nullopt;
}

// Makes tables from images spread evenly over the dataset, which may be sorted by class. The result
// depends on the dataset only, not on threads. Tables are permanent, so this fails if more images
// are unreadable now than may be bad, or if all are.
std::vector<std::byte> trained(const Dataset& dataset, const PackSettings& settings) {
  const std::uint64_t count = std::min(kTrainedOn, dataset.size());
  std::vector<std::optional<std::vector<std::byte>>> files(count);
  std::atomic<std::uint64_t> bad{0};
  data::run_parallel({count, settings.threads}, [&](std::size_t i) {
    const std::uint64_t id = dataset.size() * i / count;
    try {
      files[i] = jpeg_file(dataset, id, settings.patience);
    } catch (const SampleError& error) {
      const std::uint64_t so_far = ++bad;
      const Skipped last{.path = dataset.name(id), .reason = error.what(), .bad = true};
      require_few_bad(settings, so_far, dataset.size(), last);
      if (so_far == count) {
        throw Error(last.path + ": " + last.reason + "; none of " + std::to_string(count) + " images can be read");
      }
    }
  });
  pack::PackTraining training;
  for (auto& file : files) {
    if (file) (void)training.add(*file);
    file.reset();
  }
  if (training.files() == 0) return {};
  const pack::PackTables tables = training.finish();
  const auto bytes = tables.to_bytes();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

// All shards of a set must have the same tables, so they are made once and kept in a file next to
// the shards.
std::vector<std::byte> tables_for_pack(const Dataset& dataset, const PackSettings& settings) {
  if (!settings.coefficients || settings.pixels > 0) return {};
  const fs::path path = settings.out / kPackTables;
  make_shared_file(path, [&] { return trained(dataset, settings); });
  return read_tables(path);
}

namespace {

// Whether the sample simply does not have the field: there is no file, or it is empty. A name that
// ends with ']' is a record of a container, which exists.
bool is_no_file(const std::string& file) {
  if (file.empty()) return true;  // the index has no file for it
  if (file.ends_with(']')) return false;
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) return S_ISREG(status.st_mode) && status.st_size == 0;
  if (errno != ENOENT) return false;
  const auto colon = file.rfind(':');  // "arrays.npz:name"
  return colon == std::string::npos || ::stat(file.substr(0, colon).c_str(), &status) != 0;
}

std::uint32_t side_of(std::int32_t side) { return static_cast<std::uint32_t>(side); }

}  // namespace

std::uint64_t PackedSample::memory() const noexcept {
  std::uint64_t all = image.size();
  for (const InField& field : fields) all += field.bytes.size();
  return all;
}

SamplePacker::SamplePacker(const Dataset& dataset, const PackSettings& settings, std::span<const std::byte> tables)
    : dataset_(dataset),
      settings_(settings),
      tables_([tables](std::uint32_t) { return tables; }),
      packed_decoder_(jpeg::choose_pixel_kernels().kernels, nullptr, &tables_) {
  if (!tables.empty()) packer_.emplace(pack::PackTables::from_bytes(tables));
  if (const data::IndexImage* index = data::image_of(dataset)) below_ = index->record().root;
  if (!below_.ends_with('/')) below_ += '/';
}

// `shares`: the sample shares its record with the one before, so only fields kept in the index are
// read.
PackedSample SamplePacker::pack(std::uint64_t id, bool shares) {
  PackedSample packed;
  packed.shares = shares;
  if (!shares) {
    try {
      read_image(id, packed);
    } catch (const SampleError& error) {
      if (error.is_transient()) end_for_store(dataset_.name(id), error);
      packed.problem = error.what();
      return packed;
    }
  }
  read_fields(id, packed);
  return packed;
}

// The hash is that of the original; make_pixels() replaces it if pixels are stored.
void SamplePacker::read_image(std::uint64_t id, PackedSample& packed) {
  packed.image = bytes_by(settings_.patience, dataset_, id, [&](ReadTarget& target) { dataset_.read(id, target); });
  if (packed.image.empty()) throw SampleError("is empty");
  const Sample sample = dataset_.sample(id);
  packed.bytes = packed.image.size();
  packed.hash = data::hash128(packed.image);
  packed.kind = {.encoding = sample.encoding,
                 .width = sample.width,
                 .height = sample.height,
                 .channels = sample.channels,
                 .planar = sample.planar,
                 .bgr = sample.bgr,
                 .checked = true};
  note_size(packed);
  if (settings_.pixels > 0) {
    make_pixels(sample, packed);
  } else if (packer_ && make::starts_as_jpeg(packed.image)) {
    make_coefficients(packed);
  }
}

void SamplePacker::read_fields(std::uint64_t id, PackedSample& packed) const {
  const auto fields = dataset_.fields();
  packed.fields.resize(fields.size());
  std::uint64_t in_file = 0;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const bool is_file = data::is_of_bytes(fields[f].kind);
    if (is_file && packed.shares) continue;
    PackedSample::InField& field = packed.fields[f];
    read_field(id, f, field);
    in_file += is_file ? field.bytes.size() : 0;
  }
  if (in_file > kLargestSampleFile) packed.problem = "its fields have more than the 1 GiB that they may have";
}

void SamplePacker::read_field(std::uint64_t id, std::size_t number, PackedSample::InField& field) const {
  const bool is_file = data::is_of_bytes(dataset_.fields()[number].kind);
  try {
    field.bytes = bytes_by(settings_.patience, dataset_, id,
                           [&](ReadTarget& target) { dataset_.read_field(id, number, target); });
    if (is_file) field.file = file_of_field(id, number);
  } catch (const SampleError& error) {
    const bool is_of_store = error.is_transient() || !is_file;
    if (is_of_store) end_for_store(dataset_.name(id) + ", field " + dataset_.fields()[number].name, error);
    field.is_absent = true;
    if (!is_no_file(dataset_.field_name(id, number))) field.problem = error.what();
  }
}

std::optional<std::string> SamplePacker::absence(std::uint64_t id, std::size_t field) const {
  PackedSample::InField read;
  read_field(id, field, read);
  return read.is_absent ? std::optional(std::move(read.problem)) : std::nullopt;
}

// The path of the field's file, relative to the dataset's folder, under which it can be unpacked.
// Empty for a field that is not a whole file below that folder.
std::string SamplePacker::file_of_field(std::uint64_t id, std::size_t field) const {
  std::string file = dataset_.field_name(id, field);
  if (!file.starts_with(below_) || file.ends_with(']')) return {};
  const bool is_in_archive = file.find(':') != std::string::npos && !problem_of_file(file).empty();
  return is_in_archive ? std::string() : file.substr(below_.size());
}

// Records the image's size for people who inspect the set. If the image cannot be opened, the size
// stays 0.
void SamplePacker::note_size(PackedSample& packed) {
  if (packed.kind.encoding == Encoding::raw) {
    packed.width = side_of(packed.kind.width);
    packed.height = side_of(packed.kind.height);
    return;
  }
  constexpr make::ImageOptions kAny{.exif = true, .max_pixels = std::numeric_limits<std::int64_t>::max()};
  try {
    if (!make::starts_as_jpeg(packed.image)) {
      const make::ImageSize size = decoder_.open(packed.image, kAny);
      packed.width = side_of(size.width);
      packed.height = side_of(size.height);
    } else {
      const make::ImageSize size = jpeg_.open(packed.image, kAny);
      packed.width = side_of(size.width);
      packed.height = side_of(size.height);
      packed.orientation = static_cast<std::uint8_t>(jpeg_.header().orientation);
    }
  } catch (const SampleError&) {
    // It is a bad sample, and is packed as one.
  }
}

// JpegPacker has already checked that the coefficients give back the file. That they give the
// pixels of libjpeg-turbo is checked here, once for all readers.
void SamplePacker::make_coefficients(PackedSample& packed) {
  auto coefficients = packer_->pack(packed.image);
  // Tables that were made from other images may encode this one in more bytes than the file has,
  // and in more than a reader accepts.
  if (!coefficients || coefficients->size() > packed.image.size() + packed.image.size() / 4 + 1024) return;
  if (coefficients->size() > kLargestSampleFile) return;
  try {
    const auto decode = [&](make::ImageDecoder& decoder, std::span<const std::byte> bytes, make::Image& out) {
      const make::ImageSize size = decoder.open(bytes, settings_.images);
      decoder.decode({0, 0, size.width, size.height}, 1, out);
    };
    decode(decoder_, packed.image, image_);
    decode(packed_decoder_, *coefficients, packed_image_);
  } catch (const SampleError&) {
    return;  // it stays as it is, damaged or too large
  }
  if (image_.width != packed_image_.width || image_.height != packed_image_.height) return;
  const auto bytes = 3 * static_cast<std::size_t>(image_.width) * static_cast<std::size_t>(image_.height);
  if (std::memcmp(image_.pixels.data(), packed_image_.pixels.data(), bytes) != 0) return;
  packed.image = *std::move(coefficients);
  packed.stored = data::PackStored::coefficients;
}

// Stored pixels have three bytes; the kernels' have four. Small images are not enlarged.
void SamplePacker::make_pixels(const Sample& sample, PackedSample& packed) {
  const auto most = settings_.pixels;
  try {
    if (sample.encoding == Encoding::raw) {
      if (std::max(sample.width, sample.height) <= most) return;
      make::decode_raw(packed.image, sample, image_);
    } else {
      const make::ImageSize size = decoder_.open(packed.image, settings_.images);
      decoder_.decode({0, 0, size.width, size.height}, 1, image_);
    }
    const Box all = make::clamp_to_image(std::nullopt, image_.width, image_.height);
    const double scale = std::min(1.0, static_cast<double>(most) / std::max(image_.width, image_.height));
    const auto scaled = [&](std::int32_t side) {
      return std::max(1, static_cast<std::int32_t>(std::lround(side * scale)));
    };
    const std::int32_t width = scaled(image_.width);
    const std::int32_t height = scaled(image_.height);
    const auto row_bytes = 3 * static_cast<std::size_t>(width);
    if (row_bytes * static_cast<std::size_t>(height) > kLargestSampleFile) return;
    std::vector<std::byte> pixels(row_bytes * static_cast<std::size_t>(height));
    if (scale < 1) resizer_.begin(image_, all, width, height, false);
    for (std::int32_t y = 0; y < height; ++y) {
      std::byte* const out = pixels.data() + static_cast<std::size_t>(y) * row_bytes;
      if (scale >= 1) {
        std::memcpy(out, image_.row(y), row_bytes);
        continue;
      }
      const std::uint8_t* const row = resizer_.row(y);
      for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x)
        std::memcpy(out + 3 * x, row + make::kPixelBytes * x, 3);
    }
    packed.image = std::move(pixels);
    packed.stored = data::PackStored::pixels;
    packed.hash = data::hash128(packed.image);
    packed.kind = {.encoding = Encoding::raw, .width = width, .height = height, .channels = 3, .checked = true};
    packed.width = side_of(width);
    packed.height = side_of(height);
  } catch (const SampleError&) {
    // It remains a bad sample.
  }
}

}  // namespace forebay::archive

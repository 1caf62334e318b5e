#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "codec_files.hpp"
#include "data/image_size.hpp"
#include "make/codecs.hpp"
#include "make/image_decoder.hpp"
#include "make/png_inflater.hpp"
#include "png_reading.hpp"
#include "targets.hpp"

using namespace forebay::make;

// Images of every format: what is decoded must not depend on what the memory held before, and must
// agree with the size in the header and, for PNG, with libpng.
namespace forebay::fuzz {
namespace {

using FileBytes = std::vector<std::byte>;
using Values = std::vector<std::uint8_t>;

FileBytes bytes_of(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::int64_t most_pixels() {
  static const std::int64_t most = [] {
    const char* const given = std::getenv("FOREBAY_FUZZ_PIXELS");
    return given == nullptr ? std::int64_t{100'000} : std::int64_t{std::atoll(given)};
  }();
  return most;
}

namespace {

// All pixels, decoded into memory that is filled with `before`. Empty if the file is refused.
Values decoded(Codec& codec, const FileBytes& file, std::uint8_t before) {
  try {
    const CodecHeader header = codec.open(file);
    if (std::int64_t{header.width} * header.height > most_pixels()) return {};
    Values rgb(3 * static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height), before);
    codec.decode(rgb);
    return rgb;
  } catch (const SampleError&) {
    return {};
  }
}

template <typename Look>
bool succeeds(const Look& look) {
  try {
    look();
    return true;
  } catch (const SampleError&) {
    return false;
  }
}

// The size that is read from the header alone must be the one that the decoder finds.
void compare_sizes(const FileBytes& file, const ImageSize& size) {
  static const int memory = ::memfd_create("image", MFD_CLOEXEC);
  if (::ftruncate(memory, 0) != 0 || ::pwrite(memory, file.data(), file.size(), 0) != std::ssize(file)) return;
  data::ImageExtent said;
  if (!succeeds([&] { said = data::displayed_size(open_regular("/proc/self/fd/" + std::to_string(memory))); })) return;
  if (said.width != size.width || said.height != size.height) {
    throw std::logic_error("its header alone says " + std::to_string(said.width) + " x " + std::to_string(said.height) +
                           ", the decoder " + std::to_string(size.width) + " x " + std::to_string(size.height));
  }
}

// Uses the image as samples do: a region of it, possibly in grey; as a mask; as numbers of more
// than 8 bits. Returns whether any of these succeeds.
bool look_at(const FileBytes& file) {
  static ImageDecoder decoder;
  const ImageOptions options{.max_pixels = most_pixels(), .grey = file.size() % 2 == 0};
  const bool has_pixels = succeeds([&] {
    const ImageSize size = decoder.open(file, options);
    compare_sizes(file, size);
    Image image;
    decoder.decode({size.width / 2, size.height / 2, size.width, size.height}, 1, image);
  });
  const bool has_numbers = succeeds([&] {
    (void)decoder.open(file, options);
    WideImage wide;
    if (decoder.wide_channels() != 0) decoder.decode_wide(wide);
  });
  const bool has_indices = succeeds([&] {
    Mask mask;
    decoder.decode_mask(file, options, mask);
  });
  return has_pixels || has_numbers || has_indices;
}

// Whatever the memory held before, each pixel comes from the file.
bool use_image(const CodecKind& kind, const FileBytes& file) {
  if (kind.make == nullptr || !kind.matches(file)) return false;
  const std::unique_ptr<Codec> codec = kind.make();
  if (decoded(*codec, file, 0) != decoded(*codec, file, 0xff)) {
    throw std::logic_error("a pixel is what was in the memory before");
  }
  return look_at(file);
}

std::uint32_t big_endian(const FileBytes& file, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8U | std::to_integer<std::uint32_t>(file[at + i]);
  return number;
}

// What the inflater accepts, libpng accepts too, with the same pixels.
void compare_with_libpng(const FileBytes& file) {
  static PngInflater inflater;
  Values none;
  if (file.size() < 33 || !testing::libpng_reads(file, testing::PngPart::header, true, none)) return;
  const auto depth = std::to_integer<unsigned>(file[24]);
  const auto colours = std::to_integer<unsigned>(file[25]);
  const bool is_interlaced = file[28] != std::byte{0};
  if (depth != 8 || is_interlaced) return;
  const PngShape shape{.width = big_endian(file, 16),
                       .height = big_endian(file, 20),
                       .channels = (colours & 2U) != 0 && colours != PNG_COLOR_TYPE_PALETTE ? 3U + colours / 4 % 2
                                                                                            : 1U + colours / 4 % 2};
  if (shape.width * shape.height > static_cast<std::size_t>(most_pixels())) return;
  const bool is_rgb = shape.channels > 1;
  Values ours(shape.width * shape.height * (is_rgb ? 3 : 1));
  if (!inflater.decode(file, shape, ours)) return;
  Values theirs(ours.size());
  if (!testing::libpng_reads(file, testing::PngPart::everything, is_rgb, theirs) || ours != theirs) {
    throw std::logic_error("the pixels are not libpng's");
  }
}

std::vector<std::string> seeds_of(const std::vector<testing::CodecFile>& files) {
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    if (file.bytes.size() > 4096 && !seeds.empty()) continue;
    seeds.emplace_back(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  }
  return seeds;
}

}  // namespace

// The file as it is, and with the checksums of its chunks corrected.
bool use_png(std::string_view input) {
  static const auto repair = testing::png_files().front().repair;
  FileBytes file = bytes_of(input);
  bool is_image = use_image(codecs::png, file);
  compare_with_libpng(file);
  if (file.size() < 8) return is_image;
  repair(file);
  is_image = use_image(codecs::png, file) || is_image;
  compare_with_libpng(file);
  return is_image;
}
std::vector<std::string> png_seeds() { return seeds_of(testing::png_files()); }

bool use_webp(std::string_view input) { return use_image(codecs::webp, bytes_of(input)); }
std::vector<std::string> webp_seeds() { return seeds_of(testing::webp_files()); }

bool use_tiff(std::string_view input) { return use_image(codecs::tiff, bytes_of(input)); }
std::vector<std::string> tiff_seeds() { return seeds_of(testing::tiff_files()); }

bool use_npy_image(std::string_view input) { return use_image(codecs::npy, bytes_of(input)); }
std::vector<std::string> npy_image_seeds() { return seeds_of(testing::npy_files()); }

bool use_bmp(std::string_view input) { return use_image(codecs::bmp, bytes_of(input)); }
std::vector<std::string> bmp_seeds() { return seeds_of(testing::bmp_files()); }

bool use_pnm(std::string_view input) { return use_image(codecs::pnm, bytes_of(input)); }
std::vector<std::string> pnm_seeds() { return seeds_of(testing::pnm_files()); }

}  // namespace forebay::fuzz

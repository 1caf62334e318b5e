#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <stdexcept>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "dataset_support.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_streams.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/packed_file.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack/packed_jpeg.hpp"
#include "targets.hpp"

using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::pack;

// JPEG files, and files packed as coefficients.
namespace forebay::fuzz {
namespace {

using JpegBytes = std::vector<std::byte>;

JpegBytes copy_of(std::string_view input) {
  const auto bytes = testing::bytes_of(input);
  return {bytes.begin(), bytes.end()};
}

struct Decoded {
  std::string refusal;
  Image image;
  ImageSize size;
};

Decoded decode(JpegDecoder& decoder, const JpegBytes& file, std::uint64_t seed, Box& region) {
  Decoded decoded;
  try {
    Random random(seed);
    const ImageSize size = decoded.size =
        decoder.open(file, {.max_pixels = most_pixels(), .grey = random.below(8) == 0});
    region = random.below(3) == 0 ? Box{0, 0, size.width, size.height} : testing::random_region(random, size);
    decoder.decode(region, 1, decoded.image);
  } catch (const SampleError& error) {
    decoded.refusal = error.what();
  }
  return decoded;
}

// Decodes the whole image with the same options as decode().
Decoded decode_whole(JpegDecoder& decoder, const JpegBytes& file, std::uint64_t seed) {
  Decoded decoded;
  try {
    Random random(seed);
    const ImageSize size = decoder.open(file, {.max_pixels = most_pixels(), .grey = random.below(8) == 0});
    decoder.decode({0, 0, size.width, size.height}, 1, decoded.image);
  } catch (const SampleError& error) {
    decoded.refusal = error.what();
  }
  return decoded;
}

struct Packing {
  std::vector<JpegBytes> files = testing::plain_files({{8, 8}, {17, 9}, {64, 20}});
  PackTables tables = testing::tables_for(files);
  JpegPacker packer{tables};
};

Packing& packing() {
  static Packing one;
  return one;
}

// A region of a packed file is decoded or refused, whatever the file holds where no checksum is
// compared.
void decode_unchecked(const JpegBytes& bytes) {
  if (!starts_as_packed_jpeg(bytes)) return;
  static TableCache cache([](std::uint32_t) { return packing().tables.to_bytes(); });
  static JpegDecoder decoder(trusted_pixel_kernels(), nullptr, &cache);
  try {
    Random random(bytes.size());
    const ImageSize size = decoder.open(bytes, {.max_pixels = most_pixels(), .is_checked = true});
    Image image;
    decoder.decode(testing::random_region(random, size), 1, image);
  } catch (const SampleError&) {  // NOLINT(bugprone-empty-catch): it is damaged
  }
}

}  // namespace

// Forebay's own decoder agrees with libjpeg-turbo alone: the same refusal, or the same pixels. A
// region has the same pixels as the whole image, if all of that can be decoded.
bool use_jpeg(std::string_view input) {
  static JpegDecoder own(trusted_pixel_kernels());
  static JpegDecoder library;
  const JpegBytes file = copy_of(input);
  std::uint64_t seed = 0;
  for (const char byte : input.substr(0, 64)) seed = key64(seed, static_cast<unsigned char>(byte));
  Box region{};
  const Decoded expected = decode(library, file, seed, region);
  const Decoded found = decode(own, file, seed, region);
  if (expected.refusal != found.refusal) {
    throw std::logic_error("refused differently: \"" + found.refusal + "\", by libjpeg-turbo: \"" + expected.refusal +
                           "\"");
  }
  if (found.refusal.empty() && !testing::same_region(found.image, expected.image, region)) {
    throw std::logic_error("pixels differ from libjpeg-turbo's");
  }
  if (found.refusal.empty() &&
      std::int64_t{region.width()} * region.height() < std::int64_t{found.size.width} * found.size.height) {
    const Decoded whole = decode_whole(own, file, seed);
    if (whole.refusal.empty() && !testing::same_region(found.image, whole.image, region)) {
      throw std::logic_error("pixels of a region differ from those of the whole image");
    }
  }
  return found.refusal.empty();
}

// Half of them written by libjpeg-turbo, the others put together at random.
std::vector<std::string> jpeg_seeds() {
  std::vector<JpegBytes> files = testing::plain_files({{8, 8}, {17, 9}});
  Random random(51);
  for (std::size_t n = files.size(); n > 0; --n) files.push_back(testing::any_stream(random));
  std::vector<std::string> seeds;
  for (const JpegBytes& file : files) seeds.emplace_back(reinterpret_cast<const char*>(file.data()), file.size());
  std::erase_if(seeds, [](const std::string& seed) { return !use_jpeg(seed); });
  return seeds;
}

// A packed file behind a valid checksum is refused or unpacked. A JPEG file is packed into
// something that unpacks to the same file.
bool use_packed(std::string_view input) {
  JpegPacker& packer = packing().packer;
  JpegBytes bytes = copy_of(input);
  if (const auto packed = packer.pack(bytes); packed && packer.unpack(*packed) != bytes) {
    throw std::logic_error("a packed file unpacks to another one");
  }
  decode_unchecked(bytes);
  if (bytes.size() > 12) set_checksum(bytes);
  try {
    (void)packer.unpack(bytes);
    return true;
  } catch (const SampleError&) {
    return false;
  }
}

std::vector<std::string> packed_seeds() {
  std::vector<std::string> seeds;
  for (const JpegBytes& file : packing().files) {
    const JpegBytes packed = packing().packer.pack(file).value();
    seeds.emplace_back(reinterpret_cast<const char*>(packed.data()), packed.size());
  }
  return seeds;
}

}  // namespace forebay::fuzz

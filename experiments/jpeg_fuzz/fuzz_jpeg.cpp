#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_streams.hpp"
#include "make/jpeg_decoder.hpp"

// Damaged and odd JPEG files, decoded by Forebay's own decoder and by libjpeg-turbo alone. They must agree: the same
// refusal, or the same pixels. Meant to run under AddressSanitizer.
namespace {

using namespace forebay;
using namespace forebay::jpeg;
using namespace forebay::make;
using forebay::testing::JpegBytes;

constexpr std::int64_t kMostPixels = 100'000;
constexpr std::size_t kMostBytes = 6000;
// Small, so that damage hits what matters and an execution takes microseconds.
const std::vector<std::pair<int, int>> kSizes{{8, 8}, {17, 9}, {33, 40}, {64, 20}};

struct Decoded {
  std::optional<ImageSize> size;
  std::string refusal;
};

Decoded decode(JpegDecoder& decoder, const JpegBytes& file, std::uint64_t seed, Box& region, Image& image) {
  Decoded decoded;
  try {
    Random random(seed);
    decoded.size = decoder.open(file, {.max_pixels = kMostPixels, .grey = random.below(8) == 0});
    region = random.below(3) == 0 ? Box{0, 0, decoded.size->width, decoded.size->height}
                                  : testing::random_region(random, *decoded.size);
    decoder.decode(region, 1, image);
  } catch (const SampleError& error) {
    decoded.refusal = error.what();
  }
  return decoded;
}

// Files large enough for a decode index, with one that is right and one that is not.
class IndexedFiles {
 public:
  IndexedFiles(Random& random, const PixelKernels* kernels) {
    DecodeIndexWriter right;
    DecodeIndexWriter hostile;
    JpegDecoder decoder(kernels);
    while (files_.size() < kFiles) {
      testing::StreamRecipe recipe{.width = static_cast<int>(200 + random.below(100)),
                                   .height = static_cast<int>(150 + random.below(60))};
      if (random.below(3) == 0) recipe.sampling = {{1, 1}};
      if (random.below(3) == 0) recipe.restart_interval = static_cast<int>(1 + random.below(30));
      const JpegBytes file = testing::random_stream(recipe, random);
      (void)decoder.open(file, {});
      JpegBytes points = decoder.locate();
      if (points.empty()) continue;
      right.add(key_of(file), points);
      for (std::uint64_t n = random.below(2) == 0 ? 1 + random.below(6) : points.size(); n > 0; --n) {
        points[random.below(points.size())] = testing::any_byte(random);
      }
      hostile.add(key_of(file), std::move(points));
      files_.push_back(file);
    }
    right_ = open(right);
    hostile_ = open(hostile);
    by_right_ = JpegDecoder(kernels, right_.get());
    by_hostile_ = JpegDecoder(kernels, hostile_.get());
  }

  [[nodiscard]] const JpegBytes& any(Random& random) const { return files_[random.below(files_.size())]; }
  [[nodiscard]] JpegDecoder& by_right() noexcept { return by_right_; }
  [[nodiscard]] JpegDecoder& by_hostile() noexcept { return by_hostile_; }

 private:
  static constexpr std::size_t kFiles = 96;

  static std::unique_ptr<DecodeIndex> open(DecodeIndexWriter& writer) {
    const auto path = std::filesystem::temp_directory_path() / ("jpeg_fuzz." + std::to_string(::getpid()) + ".points");
    writer.save(path.string());
    auto index = std::make_unique<DecodeIndex>(path.string());
    std::filesystem::remove(path);
    return index;
  }

  std::vector<JpegBytes> files_;
  std::unique_ptr<DecodeIndex> right_;
  std::unique_ptr<DecodeIndex> hostile_;
  JpegDecoder by_right_;
  JpegDecoder by_hostile_;
};

struct Counts {
  std::uint64_t indexed = 0;  // of `own`: by a decode index
  std::uint64_t own = 0;
  std::uint64_t library = 0;
  std::uint64_t refused = 0;
  std::uint64_t wrong = 0;
};

class Fuzzer {
 public:
  Fuzzer(std::uint64_t seed, const PixelKernels* kernels)
      : random_(seed), own_(kernels), files_(testing::plain_files(kSizes)), indexed_(random_, kernels) {}

  void run(std::uint64_t executions) {
    JpegBytes file;
    for (std::uint64_t i = 0; i < executions; ++i) {
      if (i % 32 == 31) {
        compare_indexed();
        continue;
      }
      // Damage piles up for a while, so that what is rare comes together.
      if (i % 4 == 0 || file.size() < 8 || file.size() > kMostBytes) {
        const bool is_stream = random_.below(2) == 0;
        file = is_stream ? testing::any_stream(random_) : files_[random_.below(files_.size())];
        if (is_stream) {
          compare(file);
          continue;
        }
      }
      for (std::uint64_t k = 0, n = 1 + random_.below(2); k < n && file.size() > 8; ++k) {
        testing::damage(file, random_);
      }
      compare(file);
    }
  }

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  void compare(const JpegBytes& file) { compare(file, own_); }

  // By the right index, now and then of a file that has changed, and by the wrong one, whose pixels mean nothing.
  void compare_indexed() {
    JpegBytes file = indexed_.any(random_);
    Box region;
    (void)decode(indexed_.by_hostile(), file, random_.bits(), region, found_);
    if (random_.below(4) == 0) testing::damage(file, random_);
    compare(file, indexed_.by_right());
    counts_.indexed += indexed_.by_right().was_indexed() ? 1 : 0;
  }

  void compare(const JpegBytes& file, JpegDecoder& own) {
    const std::uint64_t seed = random_.bits();
    Box region;
    const Decoded expected = decode(turbo_, file, seed, region, expected_);
    const Decoded found = decode(own, file, seed, region, found_);
    const bool both = expected.refusal.empty() && found.refusal.empty();
    if (expected.refusal != found.refusal || (both && !testing::same_region(found_, expected_, region)))
      report(file, found);
    ++(!found.refusal.empty() ? counts_.refused : own.was_own() ? counts_.own : counts_.library);
  }

  void report(const JpegBytes& file, const Decoded& found) {
    const std::string name = "jpeg_fuzz." + std::to_string(counts_.wrong++) + ".jpg";
    std::ofstream(name, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    std::printf("%s: they differ%s\n", name.c_str(),
                found.refusal.empty() ? "" : (", refused: " + found.refusal).c_str());
  }

  Random random_;
  JpegDecoder own_;
  JpegDecoder turbo_;
  std::vector<JpegBytes> files_;
  IndexedFiles indexed_;
  Image found_;
  Image expected_;
  Counts counts_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: fuzz_jpeg EXECUTIONS [SEED]\n", stderr);
    return 2;
  }
  try {
    const std::uint64_t executions = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    std::printf("seed %llu, %llu executions: ", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(executions));
    const PixelKernels* const kernels = trusted_pixel_kernels();
    if (kernels == nullptr) throw std::runtime_error("no kernels agree with libjpeg-turbo");
    Fuzzer fuzzer(seed, kernels);
    constexpr std::uint64_t kStep = 100'000;
    for (std::uint64_t done = 0; done < executions; done += kStep) fuzzer.run(std::min(kStep, executions - done));
    const Counts& counts = fuzzer.counts();
    std::printf(
        "%llu decoded by Forebay, %s (%llu by a decode index), %llu by libjpeg-turbo, %llu refused; %llu differ\n",
        static_cast<unsigned long long>(counts.own), kernels->name, static_cast<unsigned long long>(counts.indexed),
        static_cast<unsigned long long>(counts.library), static_cast<unsigned long long>(counts.refused),
        static_cast<unsigned long long>(counts.wrong));
    return counts.wrong == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_jpeg: %s\n", error.what());
    return 1;
  }
}

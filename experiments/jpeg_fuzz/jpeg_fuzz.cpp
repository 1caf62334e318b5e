#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"

// Damaged JPEG files, decoded by Forebay's own decoder and by libjpeg-turbo alone. They must agree: the same refusal,
// or the same pixels. Meant to run under AddressSanitizer.
namespace {

using namespace forebay;
using forebay::testing::JpegBytes;

constexpr ImageOptions kOptions{.max_pixels = 100'000};
constexpr std::size_t kMostBytes = 6000;

// Small files of every plain kind, so that damage hits what matters and an execution takes microseconds.
std::vector<JpegBytes> make_files() {
  constexpr std::pair<int, int> kOne{1, 1};
  std::vector<JpegBytes> files;
  for (const auto& [width, height] : {std::pair{8, 8}, {17, 9}, {33, 40}, {64, 20}}) {
    for (const std::pair<int, int>& luma : {std::pair{0, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 2}}) {
      for (int way = 0; way < 3; ++way) {
        testing::Recipe recipe;
        recipe.width = width;
        recipe.height = height;
        if (luma.first == 0) {
          recipe.input = recipe.stored = JCS_GRAYSCALE;
          recipe.components = 1;
        } else {
          recipe.sampling = {luma, kOne, kOne};
        }
        recipe.optimised = way == 1;
        recipe.restart_interval = way == 2 ? 2 : 0;
        files.push_back(testing::make_jpeg(recipe));
      }
    }
  }
  return files;
}

struct Decoded {
  std::optional<ImageSize> size;
  std::string refusal;
};

Decoded decode(JpegDecoder& decoder, const JpegBytes& file, std::uint64_t seed, Box& region, Image& image) {
  Decoded decoded;
  try {
    decoded.size = decoder.open(file, kOptions);
    Random random(seed);
    region = random.below(3) == 0 ? Box{0, 0, decoded.size->width, decoded.size->height}
                                  : testing::random_region(random, *decoded.size);
    decoder.decode(region, 1, image);
  } catch (const SampleError& error) {
    decoded.refusal = error.what();
  }
  return decoded;
}

struct Counts {
  std::uint64_t own = 0;
  std::uint64_t library = 0;
  std::uint64_t refused = 0;
  std::uint64_t wrong = 0;
};

class Fuzzer {
 public:
  Fuzzer(std::uint64_t seed, const PixelKernels* kernels) : random_(seed), own_(kernels), files_(make_files()) {}

  void run(std::uint64_t executions) {
    JpegBytes file;
    for (std::uint64_t i = 0; i < executions; ++i) {
      // Damage piles up for a while, so that what is rare comes together.
      if (i % 4 == 0 || file.size() < 8 || file.size() > kMostBytes) file = files_[random_.below(files_.size())];
      for (std::uint64_t k = 0, n = 1 + random_.below(3); k < n && file.size() > 8; ++k) {
        testing::damage(file, random_);
      }
      compare(file);
    }
  }

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  void compare(const JpegBytes& file) {
    const std::uint64_t seed = random_.bits();
    Box region;
    const Decoded expected = decode(turbo_, file, seed, region, expected_);
    const Decoded found = decode(own_, file, seed, region, found_);
    const bool both = expected.refusal.empty() && found.refusal.empty();
    if (expected.refusal != found.refusal || (both && !testing::same_region(found_, expected_, region)))
      report(file, found);
    ++(!found.refusal.empty() ? counts_.refused : own_.was_own() ? counts_.own : counts_.library);
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
  Image found_;
  Image expected_;
  Counts counts_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fuzz_jpeg EXECUTIONS [SEED]\n");
    return 2;
  }
  try {
    const PixelKernels* const kernels = trusted_pixel_kernels();
    if (kernels == nullptr) throw std::runtime_error("no kernels agree with libjpeg-turbo");
    const std::uint64_t executions = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    Fuzzer fuzzer(seed, kernels);
    constexpr std::uint64_t kStep = 100'000;
    for (std::uint64_t done = 0; done < executions; done += kStep) fuzzer.run(std::min(kStep, executions - done));
    const Counts& counts = fuzzer.counts();
    std::printf(
        "seed %llu, %s: %llu executions: %llu decoded by Forebay, %llu by libjpeg-turbo, %llu refused; %llu differ\n",
        static_cast<unsigned long long>(seed), kernels->name, static_cast<unsigned long long>(executions),
        static_cast<unsigned long long>(counts.own), static_cast<unsigned long long>(counts.library),
        static_cast<unsigned long long>(counts.refused), static_cast<unsigned long long>(counts.wrong));
    return counts.wrong == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_jpeg: %s\n", error.what());
    return 1;
  }
}

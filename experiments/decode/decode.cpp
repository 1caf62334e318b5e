#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/transform.hpp"
#include "measure.hpp"

// What one core decodes of a folder of JPEG files, by how much of them is decoded and by whom. Modes take turns every
// few images.
namespace {

using namespace forebay;
using Bytes = std::vector<std::byte>;

constexpr int kRounds = 7;
constexpr std::size_t kMostFiles = 2000;
constexpr std::size_t kPass = 20;  // images in a row in one mode
enum Mode : std::uint8_t { header, full, region, scaled, own_full, own_region, modes };
constexpr std::array<const char*, modes> kNames{"header only", "full", "region", "scaled", "own, full", "own, region"};

// libjpeg-turbo's, and Forebay's own.
struct Decoders {
  JpegDecoder turbo;
  JpegDecoder own{trusted_pixel_kernels()};

  JpegDecoder& of(Mode mode) noexcept { return mode >= own_full ? own : turbo; }
};

// Of this thread, so that what else runs on the machine weighs less.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<Bytes> load(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Bytes> files;
  JpegDecoder decoder;
  Image image;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(content));
    try {
      decoder.decode(bytes, {}, image);
      files.emplace_back(bytes.begin(), bytes.end());
    } catch (const SampleError&) {
      continue;  // not a JPEG, or a damaged one
    }
    if (files.size() == kMostFiles) break;
  }
  return files;
}

void decode(JpegDecoder& decoder, const Bytes& file, const Box& part, std::int32_t shrink, Image& image) {
  (void)decoder.open(file, {});
  decoder.decode(part, shrink, image);
}

// Decodes one file as the feeder does in this mode. `position` chooses the crop.
void decode(JpegDecoder& decoder, const Transform& transform, const Bytes& file, std::uint64_t position, Mode mode,
            Image& image) {
  const ImageSize size = decoder.open(file, {});
  const auto view = transform.view(size.width, size.height, {}, 0, position);
  if (mode == header) return;
  decoder.decode(mode == full || mode == own_full ? Box{0, 0, size.width, size.height} : view.region,
                 mode == scaled ? transform.shrink_of(view) : 1, image);
}

struct Times {
  std::array<bench::Figure, modes> rate;     // images/s
  std::array<bench::Figure, modes> to_full;  // ratio of the rates in one round
};

Times measure(const std::vector<Bytes>& files, const Transform& transform) {
  Decoders decoders;
  std::array<Image, modes> images;
  Times times;
  for (int round = 0; round < kRounds; ++round) {
    std::array<double, modes> seconds{};
    for (std::size_t first = 0; first < files.size(); first += kPass) {
      const auto end = std::min(first + kPass, files.size());
      for (std::size_t m = 0; m < modes; ++m) {
        const double begin = cpu_seconds();
        for (std::size_t i = first; i < end; ++i) {
          const auto mode = static_cast<Mode>(m);
          decode(decoders.of(mode), transform, files[i], i + files.size() * static_cast<std::size_t>(round), mode,
                 images[m]);
        }
        seconds[m] += cpu_seconds() - begin;
      }
    }
    for (std::size_t m = 0; m < modes; ++m) {
      times.rate[m].rounds.push_back(static_cast<double>(files.size()) / seconds[m]);
      times.to_full[m].rounds.push_back(seconds[full] / seconds[m]);
    }
  }
  return times;
}

struct Difference {
  double absolute = 0;
  double squares = 0;
  double values = 0;
  int largest = 0;
  std::size_t images = 0;
  std::size_t smaller = 0;  // that were decoded to a smaller scale at all
  double worst_mean = 0;
};

// To whole pixels of the smaller scale.
Box snapped(const Box& box, std::int32_t shrink) {
  return {box.left / shrink * shrink, box.top / shrink * shrink, box.right / shrink * shrink,
          box.bottom / shrink * shrink};
}

// Grey levels between what "region" and "scaled" put into a batch, over the images that are decoded smaller. `snap`
// takes crops that lie on whole pixels of the smaller scale, so that none of the difference is a crop that moved.
Difference scaled_error(const std::vector<Bytes>& files, const Transform& transform, bool snap) {
  JpegDecoder decoder;
  Transform::Scratch scratch;
  Image image;
  std::vector<std::byte> exact(transform.sample_bytes());
  std::vector<std::byte> approximate(transform.sample_bytes());
  Difference error;
  for (std::size_t i = 0; i < files.size(); ++i, ++error.images) {
    const ImageSize size = decoder.open(files[i], {});
    auto view = transform.view(size.width, size.height, {}, 0, i);
    const auto shrink = transform.shrink_of(view);
    if (shrink == 1) continue;
    ++error.smaller;
    if (snap) view.region = snapped(view.region, shrink);
    decode(decoder, files[i], view.region, 1, image);
    transform.render(image, view, exact, scratch);
    decode(decoder, files[i], view.region, shrink, image);
    transform.render(image, view, approximate, scratch);
    double sum = 0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const int difference = std::abs(std::to_integer<int>(exact[k]) - std::to_integer<int>(approximate[k]));
      sum += difference;
      error.squares += difference * difference;
      error.largest = std::max(error.largest, difference);
    }
    error.absolute += sum;
    error.values += static_cast<double>(exact.size());
    error.worst_mean = std::max(error.worst_mean, sum / static_cast<double>(exact.size()));
  }
  return error;
}

void print(const char* name, const Difference& error) {
  if (error.smaller == 0) return;
  std::printf("    %-36s mean %.2f grey levels (worst image %.2f), max %d, PSNR %.1f dB\n", name,
              error.absolute / error.values, error.worst_mean, error.largest,
              10 * std::log10(255.0 * 255.0 * error.values / error.squares));
}

void report(const std::vector<Bytes>& files, std::int64_t side) {
  TransformOptions options;
  options.size = {side, side};
  options.dtype = DType::uint8;
  const Transform transform(options, 17, false);
  std::printf("%zu images, random-resized crops to %lld x %lld, one core\n", files.size(), static_cast<long long>(side),
              static_cast<long long>(side));
  const auto times = measure(files, transform);
  for (std::size_t m = 0; m < modes; ++m) {
    const auto& rate = times.rate[m];
    const auto& ratio = times.to_full[m];
    std::printf("  %-12s %10.0f images/s [%.0f .. %.0f], %.2f us each; %.3f x full [%.3f .. %.3f]\n", kNames[m],
                rate.median(), *std::ranges::min_element(rate.rounds), *std::ranges::max_element(rate.rounds),
                1e6 / rate.median(), ratio.median(), *std::ranges::min_element(ratio.rounds),
                *std::ranges::max_element(ratio.rounds));
  }
  const auto error = scaled_error(files, transform, false);
  std::printf("  scaled decodes %zu of %zu images smaller%s\n", error.smaller, error.images,
              error.smaller == 0 ? "" : "; those differ from region by");
  print("all in all:", error);
  print("crops on whole pixels of that scale:", scaled_error(files, transform, true));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_decode FOLDER [SIDE...]   (a folder of JPEG files; sides of the crops: 224)\n");
    return 2;
  }
  try {
    const auto files = load(argv[1]);
    if (files.empty()) throw std::runtime_error(std::string("no JPEG files below ") + argv[1]);
    for (int i = 2; i < argc; ++i) report(files, std::atoll(argv[i]));
    if (argc == 2) report(files, 224);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_decode: %s\n", error.what());
    return 1;
  }
  return 0;
}

#include <unistd.h>

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
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/packed_file.hpp"
#include "make/transform.hpp"
#include "measure.hpp"
#include "pack/jpeg_packer.hpp"

// What one core decodes of a folder of JPEG files, by how much of them is decoded and by whom. Modes take turns every
// few images.
namespace {

using namespace forebay;
using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::pack;
using Bytes = std::vector<std::byte>;

constexpr int kRounds = 7;
constexpr std::size_t kMostFiles = 2000;
constexpr std::size_t kPass = 20;  // images in a row in one mode
enum Mode : std::uint8_t {
  header,
  full,
  region,
  scaled,
  own_full,
  own_region,
  own_indexed,
  packed_full,
  packed_region,
  modes
};
constexpr std::array<const char*, modes> kNames{"header only",  "full",         "region",
                                                "scaled",       "own, full",    "own, region",
                                                "own, indexed", "packed, full", "packed, region"};

// A decode index of the files. Its own file has no name any more.
std::unique_ptr<const DecodeIndex> index_of(const std::vector<Bytes>& files) {
  DecodeIndexWriter writer;
  JpegDecoder decoder(trusted_pixel_kernels());
  for (const Bytes& file : files) {
    (void)decoder.open(file, {});
    if (Bytes points = decoder.locate(); !points.empty()) writer.add(key_of(file), std::move(points));
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("bench_decode." + std::to_string(::getpid()) + ".points")).string();
  writer.save(path);
  auto index = std::make_unique<const DecodeIndex>(path);
  std::filesystem::remove(path);
  return index;
}

// libjpeg-turbo's, Forebay's own, and that of packed files, with the tables they were packed with.
struct Decoders {
  Decoders(const std::vector<Bytes>& files, TableCache& tables)
      : index(index_of(files)), packed(trusted_pixel_kernels(), nullptr, &tables) {}

  std::unique_ptr<const DecodeIndex> index;
  JpegDecoder turbo;
  JpegDecoder own{trusted_pixel_kernels()};
  JpegDecoder indexed{trusted_pixel_kernels(), index.get()};
  JpegDecoder packed;

  JpegDecoder& of(Mode mode) noexcept {
    if (mode >= packed_full) return packed;
    return mode == own_indexed ? indexed : mode >= own_full ? own : turbo;
  }
};

// The files as forebay pack stores them; those that cannot be packed, as they are.
struct PackedFiles {
  PackTables tables;
  std::vector<Bytes> files;
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

PackedFiles pack_files(const std::vector<Bytes>& files) {
  constexpr std::size_t kSample = 400;
  PackTraining training;
  for (std::size_t i = 0; i < files.size(); i += (files.size() + kSample - 1) / kSample) (void)training.add(files[i]);
  PackedFiles result{training.finish(), {}};
  JpegPacker packer(result.tables);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t count = 0;
  const double begin = cpu_seconds();
  for (const Bytes& file : files) {
    auto packed = packer.pack(file);
    count += packed ? 1 : 0;
    result.files.push_back(packed ? *std::move(packed) : file);
    before += file.size();
    after += result.files.back().size();
  }
  const double seconds = cpu_seconds() - begin;
  std::printf("%zu of %zu files packed to %.4f of their bytes, tables apart (%zu bytes): %.0f files/s, verified\n",
              count, files.size(), static_cast<double>(after) / static_cast<double>(before),
              result.tables.to_bytes().size(), static_cast<double>(files.size()) / seconds);
  return result;
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
  decoder.decode(
      mode == full || mode == own_full || mode == packed_full ? Box{0, 0, size.width, size.height} : view.pixels,
      mode == scaled ? transform.shrink_of(view) : 1, image);
}

struct Times {
  std::array<bench::Figure, modes> rate;     // images/s
  std::array<bench::Figure, modes> to_full;  // ratio of the rates in one round
};

Times measure(const std::vector<Bytes>& files, const PackedFiles& packed, const Transform& transform) {
  TableCache tables([&](std::uint32_t) { return packed.tables.to_bytes(); });
  Decoders decoders(files, tables);
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
          const Bytes& file = mode >= packed_full ? packed.files[i] : files[i];
          decode(decoders.of(mode), transform, file, i + files.size() * static_cast<std::size_t>(round), mode,
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
    if (snap) {
      const Box region = snapped(view.region, shrink);
      view = {region, view.mirror, forebay::make::axes_of(region, transform.width(), transform.height()), region};
    }
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

void report(const std::vector<Bytes>& files, const PackedFiles& packed, std::int64_t side) {
  TransformOptions options;
  options.size = {side, side};
  options.dtype = DType::uint8;
  const Transform transform(options, 17, false);
  std::printf("%zu images, random-resized crops to %lld x %lld, one core\n", files.size(), static_cast<long long>(side),
              static_cast<long long>(side));
  const auto times = measure(files, packed, transform);
  for (std::size_t m = 0; m < modes; ++m) {
    const auto& rate = times.rate[m];
    const auto& ratio = times.to_full[m];
    std::printf("  %-14s %10.0f images/s [%.0f .. %.0f], %.2f us each; %.3f x full [%.3f .. %.3f]\n", kNames[m],
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
    const PackedFiles packed = pack_files(files);
    for (int i = 2; i < argc; ++i) report(files, packed, std::atoll(argv[i]));
    if (argc == 2) report(files, packed, 224);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_decode: %s\n", error.what());
    return 1;
  }
  return 0;
}

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/memory_target.hpp"
#include "device/nvjpeg/nvjpeg_decoder.hpp"
#include "gpu.hpp"

using namespace forebay::device;
using namespace forebay::make;

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using Files = std::vector<std::vector<std::byte>>;

constexpr std::size_t kThreads = 4;  // that hand files over: their headers are parsed on the host
constexpr double kWantedMean = 2;    // grey levels

Files files_of(const Setup& setup) {
  DatasetOptions options;
  options.path = setup.data.string();
  const std::unique_ptr<Dataset> dataset = build_dataset(options);
  Files files;
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    data::MemoryTarget target;
    dataset->read(id, target);
    files.push_back(std::move(target.bytes));
  }
  return files;
}

// All files, batch by batch; calls see(place, picture or null) for each.
template <typename See>
void decode_all(NvjpegDecoder& decoder, const Files& files, const See& see) {
  std::vector<std::span<const std::byte>> batch;
  for (std::size_t first = 0; first < files.size(); first += batch.size()) {
    const std::size_t count = std::min(NvjpegDecoder::kMost, files.size() - first);
    batch.assign(files.begin() + static_cast<std::ptrdiff_t>(first),
                 files.begin() + static_cast<std::ptrdiff_t>(first + count));
    decoder.begin(batch);
    for (std::size_t i = 0; i < count; ++i) see(first + i, decoder.picture(i));
  }
}

// Of nvJPEG's pixels from libjpeg-turbo's.
struct Difference {
  double mean = 0;
  int most = 0;
  std::size_t left = 0;  // files that nvJPEG does not take
};

Difference difference_of(NvjpegDecoder& decoder, const Files& files) {
  Difference difference;
  JpegDecoder turbo;
  Image image;
  double sum = 0;
  double values = 0;
  decode_all(decoder, files, [&](std::size_t place, const StoredPicture* picture) {
    if (picture == nullptr) {
      ++difference.left;
      return;
    }
    turbo.decode(files[place], {.exif = false}, image);
    for (std::size_t i = 0; i < picture->pixels.size(); ++i) {
      const int off = std::abs(int{picture->pixels[i]} - int{image.pixels[i]});
      difference.most = std::max(difference.most, off);
      sum += off;
    }
    values += static_cast<double>(picture->pixels.size());
  });
  difference.mean = values > 0 ? sum / values : 0;
  return difference;
}

using Decoders = std::vector<std::unique_ptr<NvjpegDecoder>>;

double images_per_s(Device& device, const Decoders& decoders, const Files& files, double seconds) {
  std::atomic<std::uint64_t> images{0};
  std::vector<std::exception_ptr> thrown(decoders.size());
  const Clock::time_point begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const auto work = [&](std::size_t thread) {
    try {
      device.enter_thread();
      do {
        decode_all(*decoders[thread], files,
                   [&](std::size_t, const StoredPicture* picture) { images += picture == nullptr ? 0 : 1; });
      } while (elapsed() < seconds);
    } catch (...) {
      thrown[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < decoders.size(); ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  const double rate = static_cast<double>(images) / elapsed();
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
  return rate;
}

double turbo_images_per_s(const Files& files) {
  JpegDecoder turbo;
  Image image;
  const Clock::time_point begin = Clock::now();
  for (const auto& file : files) turbo.decode(file, {}, image);
  return static_cast<double>(files.size()) / std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Row nvjpeg_row(const Setup& setup) {
  Row row{.subject = "nvJPEG", .found = "", .wanted = "<= 2 grey levels in the mean", .verdict = Verdict::unknown};
  const std::shared_ptr<Device> device = open_device(setup);
  std::shared_ptr<const NvjpegLibrary> library;
  try {
    library = std::make_shared<const NvjpegLibrary>();
  } catch (const Error& error) {
    row.found = error.what();
    return row;
  }
  const Files files = files_of(setup);
  Decoders decoders;
  for (std::size_t i = 0; i < kThreads; ++i) {
    decoders.push_back(std::make_unique<NvjpegDecoder>(library, device, ImageOptions{.exif = false}));
  }
  const Difference difference = difference_of(*decoders.front(), files);
  const double rate = images_per_s(*device, decoders, files, setup.quick ? 0 : 3);
  char text[300];
  std::snprintf(
      text, sizeof(text),
      "%.0f images/s, %zu threads, reading headers, parsing and copying pixels back included; libjpeg-turbo %.0f on "
      "one; mean difference %.2f, most %d; %zu of %zu files left to it; ",
      rate, kThreads, turbo_images_per_s(files), difference.mean, difference.most, difference.left, files.size());
  row.found = text + library->describe();
  row.verdict = difference.mean <= kWantedMean ? Verdict::fine : Verdict::missed;
  if (difference.left == files.size()) row.verdict = Verdict::wrong;  // baseline files, all of them
  return row;
}

}  // namespace forebay::gpu_check

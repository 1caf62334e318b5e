#include "run.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::feeder {
namespace {

// An index that cannot be used costs time, not samples. What is wrong with its bytes is the same for all ranks, and one
// of them says so; a store that fails may do so for this one alone.
std::unique_ptr<const jpeg::DecodeIndex> open_decode_index(const std::string& dataset_index,
                                                           measure::ConsoleLog& console, bool is_first) {
  if (dataset_index.empty()) return nullptr;
  const std::string file = jpeg::decode_index_of(dataset_index);
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown) && !unknown) return nullptr;
  const auto lost = [&](const Error& error, bool is_own) -> std::unique_ptr<const jpeg::DecodeIndex> {
    if (is_first || is_own) console.warn(std::string(error.what()) + "; images are decoded without it");
    return nullptr;
  };
  try {
    auto index = std::make_unique<jpeg::DecodeIndex>(file, [&console](const std::string& text) { console.warn(text); });
    index->read_ahead();
    return index;
  } catch (const SampleError& error) {
    return lost(error, error.is_transient());
  } catch (const Error& error) {
    return lost(error, false);
  }
}

}  // namespace

// Forebay's own decoder needs kernels known to give libjpeg-turbo's pixels (choose_pixel_kernels);
// without them libjpeg-turbo takes every file. nvJPEG is used on top of either, because it leaves
// some files to the CPU.
JpegDecoding choose_jpeg_decoding(const Options& options, std::shared_ptr<device::Device> device, unsigned threads,
                                  measure::ConsoleLog& console, bool is_first) {
  JpegDecoding decoding;
  if (options.workers.jpeg == JpegLibrary::turbo) return decoding;
  const jpeg::PixelKernelChoice own = jpeg::choose_pixel_kernels();
  decoding.kernels = own.kernels;
  if (own.kernels != nullptr) {
    decoding.index = open_decode_index(options.dataset.index, console, is_first);
  } else if (is_first) {
    console.info("workers.jpeg: libjpeg-turbo decodes all JPEG files, because " + std::string(own.reason));
  }
  if (options.workers.jpeg != JpegLibrary::nvjpeg) return decoding;
  device::GpuDecodingChoice choice = device::make_gpu_decoding(options.transform, std::move(device), threads);
  decoding.gpu = std::move(choice.decoding);
  if (!is_first) return decoding;
  if (decoding.gpu) {
    console.info(choice.notice);
  } else {
    console.warn(choice.notice);
  }
  return decoding;
}

}  // namespace forebay::feeder

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "device/device.hpp"
#include "make/stored_picture.hpp"
#include "nvjpeg_decoder.hpp"
#include "nvjpeg_library.hpp"
#include "read/read_request.hpp"

namespace forebay {

// nvJPEG for the decoder threads of a pipeline: a decoder for each, made at the start. Each thread calls with its own
// number, from 0.
class GpuDecoding {
 public:
  static constexpr std::size_t kMost = NvjpegDecoder::kMost;  // samples that a thread begins together

  // Throws Error when nvJPEG cannot be used on this device.
  GpuDecoding(std::shared_ptr<Device> device, const JpegOptions& options, unsigned threads);
  ~GpuDecoding();
  GpuDecoding(const GpuDecoding&) = delete;
  GpuDecoding& operator=(const GpuDecoding&) = delete;

  // What a thread decodes next. REQUIRES: at most kMost; they stay where they are until the thread's next begin().
  void begin(std::span<const EncodedSample> samples, const Dataset& dataset, unsigned thread);
  // The picture of one of them, null when libjpeg-turbo has to decode it. Valid until the thread's next call. Throws
  // Error when the GPU fails. REQUIRES: asked for in the order of begin().
  [[nodiscard]] const StoredPicture* picture(const EncodedSample& sample, unsigned thread);

  // nvJPEG's version and what it decodes with.
  [[nodiscard]] std::string describe() const { return library_->describe(); }

 private:
  struct PerThread {
    std::unique_ptr<NvjpegDecoder> decoder;
    const EncodedSample* first = nullptr;
    std::vector<std::span<const std::byte>> files;
  };

  std::shared_ptr<Device> device_;
  std::shared_ptr<const NvjpegLibrary> library_;
  std::vector<PerThread> threads_;  // by thread
};

struct GpuDecodingChoice {
  std::unique_ptr<GpuDecoding> decoding;  // none where it cannot be
  std::string notice;                     // which decoder it is, or why there is none
};

// What workers.jpeg = "nvjpeg" comes to on this device, for up to so many decoder threads.
[[nodiscard]] GpuDecodingChoice make_gpu_decoding(const TransformOptions& options, std::shared_ptr<Device> device,
                                                  unsigned threads);

}  // namespace forebay

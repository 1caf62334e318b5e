#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "device.hpp"
#include "make/image.hpp"
#include "read/requests.hpp"

// Decodes JPEG files on a GPU. Defined in nvjpeg/gpu_decoding.cpp or, in a build without nvJPEG, in no_nvjpeg.cpp.
namespace forebay::device {

// Decoders for the decoder threads of a pipeline, one for each, created at the start. Each thread calls with its own
// number, from 0.
class GpuDecoding {
 public:
  static constexpr std::size_t kMost = 32;  // samples that a thread begins together

  GpuDecoding() = default;
  virtual ~GpuDecoding() = default;
  GpuDecoding(const GpuDecoding&) = delete;
  GpuDecoding& operator=(const GpuDecoding&) = delete;

  // Starts decoding a thread's next samples. REQUIRES: at most kMost; they stay in place until the thread's next
  // begin().
  virtual void begin(std::span<const read::EncodedSample> samples, const Dataset& dataset, unsigned thread) = 0;
  // The picture of one of them; null if libjpeg-turbo has to decode it. Valid until the thread's next call. Throws
  // Error if the GPU fails. REQUIRES: requested in the order of begin().
  [[nodiscard]] virtual const make::StoredPicture* picture(const read::EncodedSample& sample, unsigned thread) = 0;
};

struct GpuDecodingChoice {
  std::unique_ptr<GpuDecoding> decoding;  // null if impossible
  std::string notice;                     // which decoder it is, or why there is none
};

// The result of workers.jpeg = "nvjpeg" on this device, for up to `threads` decoder threads.
[[nodiscard]] GpuDecodingChoice make_gpu_decoding(const TransformOptions& options, std::shared_ptr<Device> device,
                                                  unsigned threads);

}  // namespace forebay::device

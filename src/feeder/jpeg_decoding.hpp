#pragma once

#include <memory>

#include <forebay/options.hpp>

#include "device/gpu_decoding.hpp"
#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "measure/console_log.hpp"

namespace forebay::feeder {

// What decodes the JPEG files of a run.
struct JpegDecoding {
  const jpeg::PixelKernels* kernels = nullptr;     // as JpegDecoder takes them
  std::unique_ptr<const jpeg::DecodeIndex> index;  // likewise
  std::unique_ptr<device::GpuDecoding> gpu;        // none = the decoder threads decode all
};

// As workers.jpeg asks, where that can be had, and by the decode index beside dataset.index, if there is one. What is
// chosen instead, `console` says, if this rank is the first of its node; what befell this rank alone, it says in any
// case. The console must outlive the result. `threads`: those that decode, at most.
[[nodiscard]] JpegDecoding choose_jpeg_decoding(const Options& options, std::shared_ptr<device::Device> device,
                                                unsigned threads, measure::ConsoleLog& console, bool is_first);

}  // namespace forebay::feeder

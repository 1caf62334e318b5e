#include "gpu_decoding.hpp"

namespace forebay::device {

GpuDecodingChoice make_gpu_decoding(const TransformOptions& /*options*/, std::shared_ptr<Device> /*device*/,
                                    unsigned /*threads*/) {
  return {.decoding = nullptr,
          .notice = R"(workers.jpeg = "nvjpeg" is not in this build: build with -DFOREBAY_NVJPEG=ON; )"
                    R"(JPEG files are decoded as by workers.jpeg = "own")"};
}

}  // namespace forebay::device

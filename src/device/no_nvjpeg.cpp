#include "gpu_decoding.hpp"

namespace forebay {

GpuDecodingChoice make_gpu_decoding(const TransformOptions& /*options*/, std::shared_ptr<Device> /*device*/,
                                    unsigned /*threads*/) {
  return {.decoding = nullptr,
          .notice = R"(workers.jpeg = "nvjpeg" is not in this build: build with -DFOREBAY_NVJPEG=ON; )"
                    "libjpeg-turbo decodes instead"};
}

}  // namespace forebay

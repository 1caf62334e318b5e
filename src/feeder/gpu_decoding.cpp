#include "gpu_decoding.hpp"

#include <exception>
#include <utility>

#include <forebay/detail/thread.hpp>
#include <forebay/error.hpp>

namespace forebay {
namespace {

// Runs work on a thread where the device's GPU is current, and the trainer's own choice stays as it is. nvJPEG's
// objects belong to the GPU that is current when they are made, and are ended there.
template <typename Work>
void beside(Device& device, const Work& work) {
  std::exception_ptr thrown;
  start_thread("forebay-gpu", [&] {
    try {
      device.enter_thread();
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

GpuDecoding::GpuDecoding(std::shared_ptr<Device> device, const JpegOptions& options, unsigned threads)
    : device_(std::move(device)), lanes_(threads) {
  beside(*device_, [&] {
    library_ = std::make_shared<const NvjpegLibrary>();
    for (Lane& lane : lanes_) {
      lane.decoder = std::make_unique<NvjpegDecoder>(library_, device_, options);
      lane.files.reserve(kMost);
    }
  });
}

GpuDecoding::~GpuDecoding() {
  const auto end_all = [this] {
    lanes_.clear();
    library_.reset();
  };
  try {
    beside(*device_, end_all);
  } catch (const std::exception&) {
    end_all();  // there is no thread to be had, or CUDA has ended before its users
  }
}

void GpuDecoding::begin(std::span<const EncodedSample> samples, const Dataset& dataset, unsigned thread) {
  Lane& lane = lanes_[thread];
  lane.first = samples.data();
  lane.files.clear();
  for (const EncodedSample& sample : samples) {
    const bool is_jpeg = dataset.sample(sample.request.sample).encoding == Encoding::jpeg;
    lane.files.push_back(is_jpeg ? std::span<const std::byte>(sample.bytes) : std::span<const std::byte>());
  }
  lane.decoder->begin(lane.files);
}

const StoredPicture* GpuDecoding::picture(const EncodedSample& sample, unsigned thread) {
  Lane& lane = lanes_[thread];
  return lane.decoder->picture(static_cast<std::size_t>(&sample - lane.first));
}

GpuDecodingChoice make_gpu_decoding(const TransformOptions& options, std::shared_ptr<Device> device, unsigned threads) {
  const std::string instead = "; libjpeg-turbo decodes instead";
  if (device->is_host()) {
    return {.decoding = nullptr,
            .notice = R"(workers.jpeg = "nvjpeg" needs batches on a GPU, and they are on the host)" + instead};
  }
  try {
    const JpegOptions jpeg{.exif = options.exif, .max_pixels = options.max_pixels};
    auto decoding = std::make_unique<GpuDecoding>(std::move(device), jpeg, threads);
    std::string notice = "JPEG files are decoded by " + decoding->describe();
    return {.decoding = std::move(decoding), .notice = std::move(notice)};
  } catch (const Error& error) {
    return {.decoding = nullptr, .notice = std::string("nvJPEG cannot be used: ") + error.what() + instead};
  }
}

}  // namespace forebay

#include "device/gpu_decoding.hpp"

#include <exception>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/thread.hpp"
#include "nvjpeg_decoder.hpp"
#include "nvjpeg_library.hpp"

namespace forebay::device {
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

class NvjpegDecoding final : public GpuDecoding {
 public:
  // Throws Error when nvJPEG cannot be used on this device.
  NvjpegDecoding(std::shared_ptr<Device> device, const make::ImageOptions& options, unsigned threads);
  ~NvjpegDecoding() override;
  NvjpegDecoding(const NvjpegDecoding&) = delete;
  NvjpegDecoding& operator=(const NvjpegDecoding&) = delete;

  void begin(std::span<const read::EncodedSample> samples, const Dataset& dataset, unsigned thread) override;
  [[nodiscard]] const make::StoredPicture* picture(const read::EncodedSample& sample, unsigned thread) override;

  // nvJPEG's version and what it decodes with.
  [[nodiscard]] std::string describe() const { return library_->describe(); }

 private:
  struct PerThread {
    std::unique_ptr<NvjpegDecoder> decoder;
    const read::EncodedSample* first = nullptr;
    std::vector<std::span<const std::byte>> files;
  };

  std::shared_ptr<Device> device_;
  std::shared_ptr<const NvjpegLibrary> library_;
  std::vector<PerThread> threads_;  // by thread
};

// A group of samples must fit into one call of nvJPEG.
static_assert(GpuDecoding::kMost <= NvjpegDecoder::kMost);

NvjpegDecoding::NvjpegDecoding(std::shared_ptr<Device> device, const make::ImageOptions& options, unsigned threads)
    : device_(std::move(device)), threads_(threads) {
  beside(*device_, [&] {
    library_ = std::make_shared<const NvjpegLibrary>();
    for (PerThread& own : threads_) {
      own.decoder = std::make_unique<NvjpegDecoder>(library_, device_, options);
      own.files.reserve(kMost);
    }
  });
}

NvjpegDecoding::~NvjpegDecoding() {
  const auto end_all = [this] {
    threads_.clear();
    library_.reset();
  };
  try {
    beside(*device_, end_all);
  } catch (const std::exception&) {
    end_all();  // there is no thread to be had, or CUDA has ended before its users
  }
}

// Remembers where the samples are: their place in this array is what picture() tells them by.
void NvjpegDecoding::begin(std::span<const read::EncodedSample> samples, const Dataset& dataset, unsigned thread) {
  PerThread& own = threads_[thread];
  own.first = samples.data();
  own.files.clear();
  for (const read::EncodedSample& sample : samples) {
    const bool is_jpeg = dataset.sample(sample.request.sample).encoding == Encoding::image;
    own.files.push_back(is_jpeg ? sample.image() : std::span<const std::byte>());
  }
  own.decoder->begin(own.files);
}

const make::StoredPicture* NvjpegDecoding::picture(const read::EncodedSample& sample, unsigned thread) {
  PerThread& own = threads_[thread];
  return own.decoder->picture(static_cast<std::size_t>(&sample - own.first));
}

}  // namespace

// Never an error: without nvJPEG images are decoded by the CPU, and the notice says why.
GpuDecodingChoice make_gpu_decoding(const TransformOptions& options, std::shared_ptr<Device> device, unsigned threads) {
  const std::string instead = R"(; JPEG files are decoded as by workers.jpeg = "own")";
  if (device->is_host()) {
    return {.decoding = nullptr,
            .notice = R"(workers.jpeg = "nvjpeg" needs batches on a GPU, and they are on the host)" + instead};
  }
  try {
    const make::ImageOptions jpeg{.exif = options.exif, .max_pixels = options.max_pixels};
    auto decoding = std::make_unique<NvjpegDecoding>(std::move(device), jpeg, threads);
    std::string notice = "JPEG files are decoded by " + decoding->describe();
    return {.decoding = std::move(decoding), .notice = std::move(notice)};
  } catch (const Error& error) {
    return {.decoding = nullptr, .notice = std::string("nvJPEG cannot be used: ") + error.what() + instead};
  }
}

}  // namespace forebay::device

#include "jpeg_decoder.hpp"

#include "libjpeg_decoder.hpp"
#include "plain_jpeg_decoder.hpp"

namespace forebay {

class JpegDecoder::Impl {
 public:
  explicit Impl(const PixelKernels* kernels) {
    if (kernels != nullptr) plain_ = std::make_unique<PlainJpegDecoder>(*kernels);
  }

  [[nodiscard]] LibjpegDecoder& library() noexcept { return library_; }

  // What the first one cannot decode, and every refusal, is the library's.
  void decode(const Box& region, std::int32_t shrink, Image& out) {
    was_own_ = shrink == 1 && plain_ != nullptr && plain_->decode(library_.opened(), region, out);
    if (was_own_) {
      library_.close();
    } else {
      library_.decode(region, shrink, out);
    }
  }

  [[nodiscard]] bool was_own() const noexcept { return was_own_; }

 private:
  LibjpegDecoder library_;
  std::unique_ptr<PlainJpegDecoder> plain_;
  bool was_own_ = false;
};

JpegDecoder::JpegDecoder(const PixelKernels* kernels) : impl_(std::make_unique<Impl>(kernels)) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

ImageSize JpegDecoder::open(std::span<const std::byte> bytes, const ImageOptions& options) {
  return impl_->library().open(bytes, options);
}

JpegHeader JpegDecoder::header() const { return impl_->library().header(); }

void JpegDecoder::decode(const Box& region, std::int32_t shrink, Image& out) { impl_->decode(region, shrink, out); }

void JpegDecoder::decode(std::span<const std::byte> bytes, const ImageOptions& options, Image& out) {
  const ImageSize size = open(bytes, options);
  decode({0, 0, size.width, size.height}, 1, out);
}

bool JpegDecoder::was_own() const noexcept { return impl_->was_own(); }

}  // namespace forebay

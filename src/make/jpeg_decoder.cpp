// The decoder of JPEG files, plain and packed, as the rest of the room sees it: it joins
// libjpeg-turbo (libjpeg_decoder.cpp) with Forebay's own decoder (plain_jpeg_decoder.cpp), and
// packed files with both. One per decoder thread.

#include "jpeg_decoder.hpp"

#include "libjpeg_decoder.hpp"
#include "packed_file.hpp"
#include "plain_jpeg_decoder.hpp"

namespace forebay::make {

// Chooses between the two decoders: Forebay's own if it is enabled and the file is plain,
// libjpeg-turbo for everything else and for all errors. A packed file is decoded straight from its
// coefficients, and is unpacked only for libjpeg-turbo.
class JpegDecoder::Impl {
 public:
  Impl(const jpeg::PixelKernels* kernels, const jpeg::DecodeIndex* index, TableCache* tables) : packed_(tables) {
    if (kernels != nullptr) plain_ = std::make_unique<PlainJpegDecoder>(*kernels, index);
  }

  ImageSize open(std::span<const std::byte> bytes, const ImageOptions& options) {
    is_packed_ = pack::starts_as_packed_jpeg(bytes);
    if (!is_packed_) return library_.open(bytes, options);
    options_ = options;
    return library_.open(packed_.open(bytes, options.is_checked), options);
  }

  [[nodiscard]] JpegHeader header() const noexcept {
    JpegHeader header = library_.header();
    header.is_plain = header.is_plain && !is_packed_;
    return header;
  }

  [[nodiscard]] int orientation() const noexcept { return library_.opened().orientation; }

  // libjpeg-turbo gets whatever the own decoder cannot decode, and decides on every refusal.
  void decode(const Box& region, std::int32_t shrink, Image& out) {
    was_own_ = shrink == 1 && plain_ != nullptr && decode_plain(region, out);
    if (was_own_) return library_.close();
    if (is_packed_) (void)library_.open(packed_.unpack(), options_);
    library_.decode(region, shrink, out);
  }

  [[nodiscard]] bool was_own() const noexcept { return was_own_; }
  [[nodiscard]] bool was_indexed() const noexcept { return was_own_ && plain_->was_indexed(); }

  [[nodiscard]] std::vector<std::byte> locate() {
    std::vector<std::byte> points;
    if (plain_ != nullptr && !is_packed_) points = plain_->locate(library_.opened());
    library_.close();
    return points;
  }

 private:
  [[nodiscard]] bool decode_plain(const Box& region, Image& out) {
    const OpenJpeg file = library_.opened();
    return is_packed_ ? plain_->decode(file, packed_.parts(), region, out) : plain_->decode(file, region, out);
  }

  LibjpegDecoder library_;
  std::unique_ptr<PlainJpegDecoder> plain_;
  PackedFile packed_;
  ImageOptions options_;  // of the open packed file
  bool is_packed_ = false;
  bool was_own_ = false;
};

JpegDecoder::JpegDecoder(const jpeg::PixelKernels* kernels, const jpeg::DecodeIndex* index, TableCache* tables)
    : impl_(std::make_unique<Impl>(kernels, index, tables)) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

ImageSize JpegDecoder::open(std::span<const std::byte> bytes, const ImageOptions& options) {
  return impl_->open(bytes, options);
}

JpegHeader JpegDecoder::header() const { return impl_->header(); }

int JpegDecoder::orientation() const noexcept { return impl_->orientation(); }

void JpegDecoder::decode(const Box& region, std::int32_t shrink, Image& out) { impl_->decode(region, shrink, out); }

void JpegDecoder::decode(std::span<const std::byte> bytes, const ImageOptions& options, Image& out) {
  const ImageSize size = open(bytes, options);
  decode({0, 0, size.width, size.height}, 1, out);
}

bool JpegDecoder::was_own() const noexcept { return impl_->was_own(); }

bool JpegDecoder::was_indexed() const noexcept { return impl_->was_indexed(); }

std::vector<std::byte> JpegDecoder::locate() { return impl_->locate(); }

}  // namespace forebay::make

// WebP files, read with libwebp and its demultiplexer; one codec per decoder thread. open() reads
// the size of the canvas and the EXIF orientation; decode() then decodes the first frame straight
// into the caller's image. A WebP cannot be a mask, because it always has three channels.

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <forebay/error.hpp>

#include "codecs.hpp"
#include "data/image_size.hpp"
#include "signature.hpp"

namespace forebay::make {
namespace {

std::string webp_status_text(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends early, probably cut short";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses a feature that libwebp does not support";
    default: return "damaged (libwebp: status " + std::to_string(static_cast<int>(status)) + ")";
  }
}

// Of an animated file it shows the first frame, at its place on a black canvas.
class WebpCodec final : public Codec {
 public:
  CodecHeader open(std::span<const std::byte> bytes) override {
    const WebPData file{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
    demux_.reset(WebPDemux(&file));
    if (demux_ == nullptr) throw SampleError("WebP: damaged, or the file ends early (libwebpdemux refuses it)");
    width_ = WebPDemuxGetI(demux_.get(), WEBP_FF_CANVAS_WIDTH);
    const std::uint32_t height = WebPDemuxGetI(demux_.get(), WEBP_FF_CANVAS_HEIGHT);
    constexpr std::uint32_t kMostSide = 1U << 24U;  // of the format
    if (width_ < 1 || height < 1 || width_ > kMostSide || height > kMostSide) {
      throw SampleError("WebP: damaged: " + std::to_string(width_) + " x " + std::to_string(height) + " pixels");
    }
    return {.width = static_cast<std::int32_t>(width_),
            .height = static_cast<std::int32_t>(height),
            .orientation = orientation()};
  }

  // libwebp decodes straight into the caller's image, at the frame's place on the canvas.
  void decode(std::span<std::uint8_t> rgb) override {
    const std::unique_ptr<WebPDemuxer, End> demux = std::move(demux_);
    const Frame frame(*demux);
    const WebPIterator& place = frame.iterator;
    const auto row_bytes = std::size_t{width_} * 3;
    // Most files have one frame that covers the canvas; only others need the black around it.
    const bool fills_canvas =
        place.width == static_cast<int>(width_) && static_cast<std::size_t>(place.height) * row_bytes == rgb.size();
    if (!fills_canvas) std::ranges::fill(rgb, std::uint8_t{0});
    const std::size_t first =
        static_cast<std::size_t>(place.y_offset) * row_bytes + 3 * static_cast<std::size_t>(place.x_offset);
    const std::size_t last =
        first + static_cast<std::size_t>(place.height - 1) * row_bytes + 3 * static_cast<std::size_t>(place.width);
    if (place.x_offset + place.width > static_cast<int>(width_) || last > rgb.size()) {
      throw SampleError("WebP: damaged: its first frame reaches past the canvas");
    }
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0)
      throw SampleError("WebP: libwebp is another version than Forebay was built for");
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {.rgba = rgb.data() + first, .stride = static_cast<int>(row_bytes), .size = last - first};
    const VP8StatusCode status = WebPDecode(place.fragment.bytes, place.fragment.size, &config);
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status != VP8_STATUS_OK) throw SampleError("WebP: " + webp_status_text(status));
  }

  void decode_indices(std::span<std::uint8_t> /*indices*/) override {
    demux_.reset();
    throw no_mask("WebP", 3, 8);
  }

 private:
  struct End {
    void operator()(WebPDemuxer* demux) const noexcept { WebPDemuxDelete(demux); }
  };
  // Releases the iterator, which holds memory of the demultiplexer.
  struct Frame {
    explicit Frame(const WebPDemuxer& demux) {
      if (WebPDemuxGetFrame(&demux, 1, &iterator) == 0 || iterator.width < 1 || iterator.height < 1) {
        throw SampleError("WebP: damaged: it has no frame");
      }
    }
    ~Frame() { WebPDemuxReleaseIterator(&iterator); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    WebPIterator iterator{};
  };

  // Some programs write the six bytes "Exif\0\0" before the data, as in a JPEG.
  [[nodiscard]] int orientation() const noexcept {
    WebPChunkIterator chunk{};
    if (WebPDemuxGetChunk(demux_.get(), "EXIF", 1, &chunk) == 0) return 1;
    const auto exif = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));
    const int found = data::is_exif(exif) ? data::exif_orientation(exif) : data::tiff_orientation(exif);
    WebPDemuxReleaseChunkIterator(&chunk);
    return found;
  }

  std::unique_ptr<WebPDemuxer, End> demux_;
  std::uint32_t width_ = 0;
};

}  // namespace

const CodecKind codecs::webp{
    .matches = starts_as_webp, .make = [] { return std::unique_ptr<Codec>(new WebpCodec); }, .library = "libwebp"};

}  // namespace forebay::make

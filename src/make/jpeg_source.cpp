#include "jpeg_source.hpp"

#include <algorithm>
#include <array>

#include <jerror.h>

namespace forebay::make {
namespace {

// What libjpeg's own sources go on with behind the end of a file, after a warning.
constexpr std::array<JOCTET, 2> kEndOfImageMarker{0xff, JPEG_EOI};

}  // namespace

JpegSource::JpegSource() noexcept : jpeg_source_mgr{} {
  init_source = [](j_decompress_ptr) {};
  term_source = [](j_decompress_ptr) {};
  resync_to_restart = jpeg_resync_to_restart;
  fill_input_buffer = [](j_decompress_ptr info) -> boolean {
    of(info).give_next(info);
    return TRUE;
  };
  // Behind the end of the file give_next() hands out end markers for ever, so a segment that claims
  // to be long ends there with a warning.
  skip_input_data = [](j_decompress_ptr info, long count) {
    if (count <= 0) return;
    JpegSource& source = of(info);
    auto left = static_cast<std::size_t>(count);
    while (left > source.bytes_in_buffer) {
      left -= source.bytes_in_buffer;
      source.give_next(info);
    }
    source.next_input_byte += left;
    source.bytes_in_buffer -= left;
  };
}

void JpegSource::serve(jpeg_decompress_struct& info, std::span<const std::byte> bytes) noexcept {
  bytes_ = bytes;
  given_ = 0;
  next_input_byte = nullptr;
  bytes_in_buffer = 0;
  info.src = this;
}

void JpegSource::give_next(j_decompress_ptr info) noexcept {
  if (given_ == bytes_.size()) {
    WARNMS(info, JWRN_JPEG_EOF);
    next_input_byte = kEndOfImageMarker.data();
    bytes_in_buffer = kEndOfImageMarker.size();
    return;
  }
  const std::size_t size = std::min(kPieceBytes, bytes_.size() - given_);
  next_input_byte = reinterpret_cast<const JOCTET*>(bytes_.data()) + given_;
  bytes_in_buffer = size;
  given_ += size;
}

}  // namespace forebay::make

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "clip.hpp"

namespace forebay::video {

// A decoded frame as stored: RGB, 8 bits, interleaved, rows without padding. Valid only during the call that passes it.
struct Frame {
  std::span<const std::uint8_t> pixels;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// Decodes clips, each with one thread. Every frame equals that of a decoder that started at the beginning of the video.
// Packets whose frames are not wanted and not referred to by others are skipped, if the codec identifies them (H.264,
// HEVC, MPEG-4). Belongs to one thread and is reused from clip to clip.
class ClipDecoder {
 public:
  struct Facts {
    std::uint64_t starts = 0;  // number of frames at which the clip may begin
    std::int32_t width = 0;    // as stored
    std::int32_t height = 0;
    int orientation = 1;  // EXIF, 1 to 8
  };
  // Rows [first, last) of a frame as stored.
  struct Rows {
    std::int32_t first = 0;
    std::int32_t last = 0;
  };
  // Receives the clip's n-th frame, n from 0; each once, in any order.
  using Take = std::function<void(std::uint32_t n, const Frame& frame)>;

  ClipDecoder();
  ~ClipDecoder();
  ClipDecoder(ClipDecoder&&) noexcept;
  ClipDecoder& operator=(ClipDecoder&&) noexcept;

  // `bytes`: ClipBytes::table, then the bytes of the file that it names; they must stay valid until decode() returns.
  // Throws SampleError if they are damaged, or have more than `max_pixels` pixels per frame.
  Facts open(std::span<const std::byte> bytes, std::int64_t max_pixels);

  // Decodes the clip that begins at start number `start` of the open one. Only `rows` of each frame need be correct.
  // Throws SampleError for damaged packets, missing frames, and frames whose size differs from Facts; and what `take`
  // throws. REQUIRES: open() succeeded; start < starts; `rule`: the dataset's; rows within the frame.
  void decode(std::uint64_t start, const ClipRule& rule, Rows rows, const Take& take);

 private:
  struct Tools;
  std::unique_ptr<Tools> tools_;
};

}  // namespace forebay::video

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "clip.hpp"

namespace forebay::video {

// A decoded frame as stored: RGB, 8 bits, interleaved, rows without padding. Valid during the call that hands it over.
struct Frame {
  std::span<const std::uint8_t> pixels;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// Decodes clips, each with one thread: with every frame equal to that of a decoder that began at the video's start.
// Packets whose frames are not wanted and that no other refers to are not decoded, where the codec says which they are
// (H.264, HEVC, MPEG-4). One belongs to one thread and is reused from clip to clip.
class ClipDecoder {
 public:
  struct Facts {
    std::uint64_t starts = 0;  // frames that the clip may begin with
    std::int32_t width = 0;    // as stored
    std::int32_t height = 0;
    int orientation = 1;  // EXIF, 1 to 8
  };
  // Rows [first, last) of a frame as stored.
  struct Rows {
    std::int32_t first = 0;
    std::int32_t last = 0;
  };
  // The clip's n-th frame, n from 0; each once, in any order.
  using Take = std::function<void(std::uint32_t n, const Frame& frame)>;

  ClipDecoder();
  ~ClipDecoder();
  ClipDecoder(ClipDecoder&&) noexcept;
  ClipDecoder& operator=(ClipDecoder&&) noexcept;

  // `bytes`: ClipBytes::table, then the bytes of the file that it names; they must stay until decode() returns. Throws
  // SampleError when they are damaged, or of more than `max_pixels` pixels a frame.
  Facts open(std::span<const std::byte> bytes, std::int64_t max_pixels);

  // Decodes the clip that begins with frame `start` of the open one. Of each frame only `rows` need be right. Throws
  // SampleError for damaged packets, frames that are missing, and frames of another size than Facts says; and what
  // `take` throws. REQUIRES: open() succeeded; start < starts; `rule` is that of clip_bytes(); rows within the frame.
  void decode(std::uint64_t start, const ClipRule& rule, Rows rows, const Take& take);

 private:
  struct Tools;
  std::unique_ptr<Tools> tools_;
};

}  // namespace forebay::video

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/error.hpp>

#include "video_table.hpp"

// Clips of videos. A video's packets are determined once, when its dataset is indexed (index_video.hpp); after that a
// clip is a run of the file's bytes and a list of its packets, and is decoded without a demuxer (clip_decoder.hpp). All
// functions are pure; any thread may call.
namespace forebay::video {

// The frames of a clip: `frames` of them, each `stride` frames after the previous one.
struct ClipRule {
  std::uint32_t frames = 16;
  std::uint32_t stride = 1;

  // The number of video frames from the first to the last, inclusive.
  [[nodiscard]] constexpr std::uint64_t span() const noexcept { return std::uint64_t{frames - 1} * stride + 1; }
};

// The facts about an indexed video.
struct VideoFacts {
  std::uint64_t frames = 0;  // that are shown, in the order of their timestamps
  std::int32_t width = 0;    // as stored; damaged or odd files may hold frames of other sizes
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8, of the rotation that the container states
};

// The part of a file that holds certain frames, from the last key frame before them.
struct ClipBytes {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  // For ClipDecoder::open(), which expects it to be followed by these bytes of the file.
  std::vector<std::byte> table = {};
};

// An indexed video.
class IndexedVideo {
 public:
  // `table`: the result of index_video(). Throws SampleError if it is damaged.
  explicit IndexedVideo(std::span<const std::byte> table);

  [[nodiscard]] VideoFacts facts() const noexcept;
  // The bytes that a reader needs for a clip that begins at any of the frames [first, first + starts) and shows none
  // from `end` on, nor past the video's end: a longer clip repeats the last frame. Throws SampleError if these frames
  // do not exist.
  [[nodiscard]] ClipBytes clip(std::uint64_t first, std::uint64_t starts, const ClipRule& rule,
                               std::uint64_t end = UINT64_MAX) const;

 private:
  VideoTable video_;
  std::vector<std::uint32_t> shown_;  // of video_
};

}  // namespace forebay::video

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace forebay::video {

// A packet of a video stream.
struct Packet {
  std::int64_t pts = 0;      // when its frame is shown, in units of the stream
  std::uint64_t offset = 0;  // of its bytes: in the file, or behind the table of a clip
  std::uint32_t bytes = 0;
  bool is_key = false;         // decoding may begin here: what is shown from its frame on needs nothing before it
  bool is_disposable = false;  // no other frame needs it
  bool is_hidden = false;      // its frame is decoded, not shown: an edit list cuts it off
};

// What a decoder of a video has to know without its container, and its packets in the order of decoding. Of a clip only
// the packets that it needs.
struct VideoTable {
  static constexpr std::uint32_t kMostPackets = std::uint32_t{1} << 24U;  // 155 hours of 30 frames a second
  static constexpr std::size_t kLongestExtradata = std::size_t{1} << 20U;

  // As AVCodecParameters has them; numbers that another version of the library may number otherwise by their names.
  std::string codec;
  std::string pixel_format;
  std::vector<std::byte> extradata = {};
  std::uint32_t tag = 0;
  std::int32_t profile = 0;
  std::int32_t level = 0;
  std::int32_t bits_per_sample = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8

  std::vector<Packet> packets = {};
  // A clip's; of the frames that are shown, in their order: the first that it may begin with, how many these are, and
  // the one behind the last that it may show.
  std::uint64_t first = 0;
  std::uint64_t starts = 0;
  std::uint64_t end = 0;

  // The packets of the frames that are shown, in the order of their timestamps.
  [[nodiscard]] std::vector<std::uint32_t> shown() const;
  // For each packet the last one at which decoding may begin for its frame: the key packet at or before it whose frame
  // is shown no later; the first packet where there is none.
  [[nodiscard]] std::vector<std::uint32_t> entries() const;
  // By how many frames the order of decoding and that of showing differ at most.
  [[nodiscard]] std::uint32_t delay() const;

  [[nodiscard]] std::vector<std::byte> serialize() const;
  // Undoes serialize() of what stands at the beginning of the bytes, and sets `length` to that of it. Throws
  // SampleError.
  [[nodiscard]] static VideoTable parse(std::span<const std::byte> bytes, std::size_t& length);
};

}  // namespace forebay::video

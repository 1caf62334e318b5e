#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace forebay::video {

// What a decoder of a video stream has to know without its container, as AVCodecParameters has it; numbers that another
// version of the library may number otherwise by their names. Streams that are alike share a decoder.
struct StreamParameters {
  static constexpr std::size_t kLongestExtradata = std::size_t{1} << 20U;

  std::string codec;
  std::string pixel_format;
  std::vector<std::byte> extradata = {};
  std::uint32_t tag = 0;
  std::int32_t profile = 0;
  std::int32_t level = 0;
  std::int32_t bits_per_sample = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint32_t delay = 0;  // by how many frames the order of decoding and that of showing differ at most

  friend bool operator==(const StreamParameters&, const StreamParameters&) = default;
};

// A packet of a video stream.
struct Packet {
  std::uint32_t rank = 0;    // its frame's place in the order of showing, among those of all packets of the table
  std::uint64_t offset = 0;  // of its bytes: in the file, or behind the table of a clip
  std::uint32_t bytes = 0;
  bool is_key = false;         // decoding may begin here: what is shown from its frame on needs nothing before it
  bool is_disposable = false;  // no other frame needs it
  bool is_hidden = false;      // its frame is decoded, not shown: an edit list cuts it off
};

// A video, or a clip of one, whose table has the packets alone that it needs; in the order of decoding.
struct VideoTable {
  static constexpr std::uint32_t kMostPackets = std::uint32_t{1} << 24U;  // 155 hours of 30 frames a second

  StreamParameters stream;
  int orientation = 1;  // EXIF, 1 to 8
  std::vector<Packet> packets = {};
  // A clip's; of the frames that are shown, in their order: the first that it may begin with, how many these are, and
  // the one behind the last that it may show.
  std::uint64_t first = 0;
  std::uint64_t starts = 0;
  std::uint64_t end = 0;

  // Ranks the packets by these timestamps, one for each; of equals the one that is decoded first comes first.
  void rank_by(std::span<const std::int64_t> times);
  // The packets of the frames that are shown, in the order of showing. REQUIRES: the packets are ranked.
  [[nodiscard]] std::vector<std::uint32_t> shown() const;
  // For each of some packets, in ascending order, the last one at which decoding may begin for its frame: the key
  // packet at or before it whose frame is shown no later; the first packet where there is none.
  [[nodiscard]] std::vector<std::uint32_t> entries(std::span<const std::uint32_t> of) const;

  [[nodiscard]] std::vector<std::byte> serialize() const;
  // Undoes serialize() of what stands at the beginning of the bytes, and sets `length` to that of it. Throws
  // SampleError.
  [[nodiscard]] static VideoTable parse(std::span<const std::byte> bytes, std::size_t& length);
};

// StreamParameters::delay of packets that are ranked.
[[nodiscard]] std::uint32_t delay_of(std::span<const Packet> packets);

}  // namespace forebay::video

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace forebay::video {

// The parameters that a decoder of a video stream needs in place of the container, as in AVCodecParameters; enumerators
// that may have other numbers in another version of the library are stored by name. Streams with equal parameters share
// a decoder.
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
  // What a bitstream that states neither is shown with; both numbers are fixed (the matrix: ITU-T H.273).
  std::int32_t colour_range = 0;
  std::int32_t matrix = 2;
  std::uint32_t delay = 0;  // the most frames by which the orders of decoding and of presentation differ

  friend bool operator==(const StreamParameters&, const StreamParameters&) = default;
};

// A packet of a video stream.
struct Packet {
  std::uint32_t rank = 0;    // its frame's place in presentation order, among all packets of the table
  std::uint64_t offset = 0;  // of its bytes: in the file, or after the table of a clip
  std::uint32_t bytes = 0;
  bool is_key = false;         // decoding may begin here: frames shown from its own on need nothing before it
  bool is_disposable = false;  // no other frame needs it
  bool is_hidden = false;      // its frame is decoded but not shown, because an edit list cuts it off
};

// A video, or a clip of one with only the packets that it needs; in decoding order.
struct VideoTable {
  static constexpr std::uint32_t kMostPackets = std::uint32_t{1} << 24U;  // 155 hours of 30 frames a second

  StreamParameters stream;
  int orientation = 1;  // EXIF, 1 to 8
  std::vector<Packet> packets = {};
  // For a clip, in presentation order: the first frame at which it may begin, the number of such frames, and the end of
  // the frames that it may show.
  std::uint64_t first = 0;
  std::uint64_t starts = 0;
  std::uint64_t end = 0;

  // Ranks the packets by their timestamps; of equal ones the one decoded first comes first.
  void rank_by(std::span<const std::int64_t> times);
  // The packets of the frames that are shown, in presentation order. REQUIRES: the packets are ranked.
  [[nodiscard]] std::vector<std::uint32_t> shown() const;
  // For each of some packets, in ascending order, the last one at which decoding may begin for its frame: the key
  // packet at or before it whose frame is shown no later; the first packet where there is none.
  [[nodiscard]] std::vector<std::uint32_t> entries(std::span<const std::uint32_t> of) const;

  [[nodiscard]] std::vector<std::byte> serialize() const;
  // Restores the result of serialize() at the beginning of the bytes, and sets `length` to its length. Throws
  // SampleError.
  [[nodiscard]] static VideoTable parse(std::span<const std::byte> bytes, std::size_t& length);
};

// StreamParameters::delay for ranked packets.
[[nodiscard]] std::uint32_t delay_of(std::span<const Packet> packets);

}  // namespace forebay::video

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace forebay::video {

// What the bytes of a packet say of its part in decoding. Used by one thread, for one video.
class PacketNature {
 public:
  // No frame may do without it, as far as can be told.
  static constexpr std::uint8_t kNeeded = UINT8_MAX;

  // `codec` as libavcodec calls it; its extradata as the container has it.
  PacketNature(std::string_view codec, std::span<const std::byte> extradata);

  // kNeeded, or the temporal layer of its frame, to which no other frame of this layer refers, nor of a lower one: it
  // can be left out if the video has no higher layer.
  [[nodiscard]] std::uint8_t layer_of(std::span<const std::byte> packet) const;
  // Whether it holds a second frame, as in avi files with "packed" frames: a decoder gives that one for the packet
  // after it, and so on, so that none of the video may be left out.
  [[nodiscard]] bool is_packed(std::span<const std::byte> packet) const;
  // Whether decoding may begin at a packet that the container calls a key frame: in H.264 some are only where a picture
  // begins to be refreshed bit by bit.
  [[nodiscard]] bool is_entry(std::span<const std::byte> packet) const;

 private:
  enum class Codec : std::uint8_t { h264, hevc, mpeg4, other };

  Codec codec_ = Codec::other;
  std::size_t length_bytes_ = 0;  // of a NAL unit's length; 0: units begin with start codes, or it is another codec
};

}  // namespace forebay::video

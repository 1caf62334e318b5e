#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace forebay::video {

// Determines a packet's role in decoding from its bytes. Used by one thread, for one video.
class PacketNature {
 public:
  // As far as can be determined, other frames may need it.
  static constexpr std::uint8_t kNeeded = UINT8_MAX;

  // `codec`: libavcodec's name; the extradata are the container's.
  PacketNature(std::string_view codec, std::span<const std::byte> extradata);

  // kNeeded, or the temporal layer of its frame if no other frame of this or a lower layer refers to it: it can be
  // skipped if the video has no higher layer.
  [[nodiscard]] std::uint8_t layer_of(std::span<const std::byte> packet) const;
  // Whether it holds a second frame, as in avi files with "packed" frames: a decoder gives that one for the packet
  // after it, and so on, so that none of the video may be left out.
  [[nodiscard]] bool is_packed(std::span<const std::byte> packet) const;
  // Whether decoding may begin at a packet that the container calls a key frame: in H.264 some are only where a picture
  // begins to be refreshed bit by bit, and some containers call every packet one.
  [[nodiscard]] bool is_entry(std::span<const std::byte> packet) const;

 private:
  enum class Codec : std::uint8_t { h263, h264, hevc, mpeg4, other };

  Codec codec_ = Codec::other;
  std::size_t length_bytes_ = 0;  // of a NAL unit's length; 0: units begin with start codes, or it is another codec
};

}  // namespace forebay::video

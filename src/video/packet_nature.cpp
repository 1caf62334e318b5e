// NAL units of H.264 (ITU-T H.264, 7.3.1 and table 7-1) and HEVC (ITU-T H.265, 7.3.1.2 and table
// 7-1), each preceded by its length as in mp4 and mkv (ISO/IEC 14496-15); VOPs of MPEG-4 (ISO/IEC
// 14496-2, 6.2.5); picture headers of H.263 (ITU-T H.263, 5.1.3 and 5.1.4).

#include "packet_nature.hpp"

#include <algorithm>

namespace forebay::video {
namespace {

std::uint8_t at(std::span<const std::byte> bytes, std::size_t i) noexcept {
  return i < bytes.size() ? std::to_integer<std::uint8_t>(bytes[i]) : std::uint8_t{0};
}

// Calls use(unit) for each unit until it returns false. False, too, where the lengths do not fit.
template <class Use>
bool for_each_unit(std::span<const std::byte> packet, std::size_t length_bytes, const Use& use) {
  while (!packet.empty()) {
    if (packet.size() < length_bytes) return false;
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) length = length << 8U | at(packet, i);
    packet = packet.subspan(length_bytes);
    if (length == 0 || length > packet.size()) return false;
    if (!use(packet.first(length))) return false;
    packet = packet.subspan(length);
  }
  return true;
}

// Slices that no picture refers to, and what says nothing of other pictures: SEI and delimiters.
bool is_disposable_h264(std::span<const std::byte> unit) noexcept {
  const unsigned type = at(unit, 0) & 0x1fU;
  if (type == 1 || type == 2) return (at(unit, 0) & 0x60U) == 0;
  return type == 3 || type == 4 || type == 6 || type == 9 || type == 12;
}

bool is_disposable_hevc(std::span<const std::byte> unit) noexcept {
  const unsigned type = (at(unit, 0) >> 1U) & 0x3fU;
  if (type < 16) return type % 2 == 0;  // a sub-layer non-reference picture
  return type == 35 || type == 38 || type == 39 || type == 40;
}

// Whether an SEI unit says that the picture is whole at once (recovery_point with recovery_frame_cnt = 0), 1 or 0; -1
// if it does not speak of that.
int recovers_at_once(std::span<const std::byte> unit) noexcept {
  constexpr unsigned kRecoveryPoint = 6;
  std::size_t i = 1;
  while (i + 2 < unit.size()) {
    std::size_t type = 0;
    std::size_t size = 0;
    for (std::size_t* value : {&type, &size}) {
      while (at(unit, i) == 0xff) {
        *value += 255;
        ++i;
      }
      *value += at(unit, i++);
    }
    // The number is Exp-Golomb coded: 0 is a single 1.
    if (type == kRecoveryPoint) return (at(unit, i) & 0x80U) != 0 ? 1 : 0;
    i += size;
  }
  return -1;
}

// Whether a picture of H.263 refers to no other.
bool is_intra_h263(std::span<const std::byte> packet) noexcept {
  constexpr unsigned kExtended = 7;  // source format: PLUSPTYPE follows
  if ((at(packet, 4) >> 2U & 7U) != kExtended) return (at(packet, 4) & 2U) == 0;
  const bool has_format = ((at(packet, 4) & 3U) << 1U | at(packet, 5) >> 7U) == 1;
  return ((has_format ? at(packet, 7) >> 2U : at(packet, 5) >> 4U) & 7U) == 0;
}

// How many VOPs a packet has, and the vop_coding_type of the first.
struct Vops {
  int count = 0;
  unsigned first_type = 0;
};
constexpr unsigned kIntra = 0;
constexpr unsigned kBidirectional = 2;

Vops vops_of(std::span<const std::byte> packet) {
  constexpr auto kVop = std::to_array<std::byte>({std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0xb6}});
  Vops vops;
  for (auto rest = packet.begin();;) {
    rest = std::search(rest, packet.end(), kVop.begin(), kVop.end());
    if (packet.end() - rest <= std::ssize(kVop)) return vops;
    rest += std::ssize(kVop);
    if (vops.count++ == 0) vops.first_type = std::to_integer<unsigned>(*rest) >> 6U;
  }
}

}  // namespace

PacketNature::PacketNature(std::string_view codec, std::span<const std::byte> extradata) {
  constexpr std::size_t kLengthInAvcc = 4;
  constexpr std::size_t kLengthInHvcc = 21;
  if (codec == "mpeg4") codec_ = Codec::mpeg4;
  if (codec == "h263") codec_ = Codec::h263;
  const bool is_box = at(extradata, 0) == 1;  // configurationVersion; a start code begins with 0
  if (codec == "h264" && is_box && extradata.size() > kLengthInAvcc) {
    codec_ = Codec::h264;
    length_bytes_ = (at(extradata, kLengthInAvcc) & 3U) + 1;
  }
  if (codec == "hevc" && is_box && extradata.size() > kLengthInHvcc) {
    codec_ = Codec::hevc;
    length_bytes_ = (at(extradata, kLengthInHvcc) & 3U) + 1;
  }
}

std::uint8_t PacketNature::layer_of(std::span<const std::byte> packet) const {
  if (codec_ == Codec::mpeg4) {
    const Vops vops = vops_of(packet);
    return vops.count == 1 && vops.first_type == kBidirectional ? 0 : kNeeded;
  }
  if (length_bytes_ == 0) return kNeeded;
  std::uint8_t layer = 0;
  const bool can_go = for_each_unit(packet, length_bytes_, [&](std::span<const std::byte> unit) {
    if (codec_ == Codec::h264) return is_disposable_h264(unit);
    layer = static_cast<std::uint8_t>(std::max<unsigned>(layer, ((at(unit, 1) & 7U) - 1U) & 7U));
    return is_disposable_hevc(unit);
  });
  return can_go ? layer : kNeeded;
}

bool PacketNature::is_packed(std::span<const std::byte> packet) const {
  return codec_ == Codec::mpeg4 && vops_of(packet).count > 1;
}

bool PacketNature::is_entry(std::span<const std::byte> packet) const {
  // Where frames are packed, one that is not coded stands in for the second of the packet before, of whatever type.
  // None is larger (libavcodec/mpeg4videodec.c has this bound, too).
  constexpr std::size_t kLargestNotCoded = 19;
  if (codec_ == Codec::mpeg4) return packet.size() > kLargestNotCoded && vops_of(packet).first_type == kIntra;
  if (codec_ == Codec::h263) return is_intra_h263(packet);
  if (codec_ == Codec::other) return true;
  if (codec_ == Codec::hevc) {
    constexpr unsigned kFirstRandomAccess = 16;
    constexpr unsigned kLastRandomAccess = 23;
    constexpr unsigned kParameters = 32;  // and all that is no slice
    unsigned type = kParameters;          // of the first slice
    (void)for_each_unit(packet, length_bytes_, [&](std::span<const std::byte> unit) {
      type = (at(unit, 0) >> 1U) & 0x3fU;
      return type >= kParameters;
    });
    return type >= kFirstRandomAccess && type <= kLastRandomAccess;
  }
  bool is_idr = false;
  int at_once = -1;
  (void)for_each_unit(packet, length_bytes_, [&](std::span<const std::byte> unit) {
    const unsigned type = at(unit, 0) & 0x1fU;
    is_idr = is_idr || type == 5;
    if (type == 6 && at_once < 0) at_once = recovers_at_once(unit);
    return true;
  });
  return is_idr || at_once == 1;
}

}  // namespace forebay::video

// The table of a video as bytes, and what of it a clip needs.
//
// Numbers take seven bits a byte, the lowest first; those that may be below zero are folded (0, -1, 1, -2, ...). A
// packet is its size with three flags below it, how far its place is from the end of the packet before, and how far its
// timestamp is from that of the packet before: with sound between the packets about five bytes.

#include "video_table.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <numeric>

#include "clip.hpp"

namespace forebay::video {
namespace {

constexpr std::uint64_t kVersion = 1;

class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_.push_back(static_cast<std::byte>(value | 0x80U));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void folded(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
  }
  void block(std::span<const std::byte> block) {
    number(block.size());
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

[[noreturn]] void fail() { throw SampleError("damaged: the table of a video"); }

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) fail();
      const auto next = std::to_integer<std::uint8_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= std::uint64_t{next & 0x7fU} << shift;
      if (next < 0x80) return value;
    }
    fail();
  }
  std::int64_t folded() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value >> 1U) ^ (0 - (value & 1U)));
  }
  std::uint64_t number(std::uint64_t most) {
    const std::uint64_t value = number();
    if (value > most) fail();
    return value;
  }
  std::int32_t small() {
    const std::int64_t value = folded();
    if (value < INT32_MIN || value > INT32_MAX) fail();
    return static_cast<std::int32_t>(value);
  }
  std::span<const std::byte> block(std::size_t most) {
    const auto size = static_cast<std::size_t>(number(most));
    if (size > rest_.size()) fail();
    const auto block = rest_.first(size);
    rest_ = rest_.subspan(size);
    return block;
  }
  std::string name() {
    const auto bytes = block(64);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

// Sums and differences of whatever a file says, without overflow.
std::int64_t minus(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t plus(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::uint64_t count_shown(const VideoTable& table) noexcept {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(table.packets, [](const Packet& packet) { return !packet.is_hidden; }));
}

}  // namespace

std::vector<std::uint32_t> VideoTable::shown() const {
  std::vector<std::uint32_t> order;
  order.reserve(packets.size());
  for (std::uint32_t i = 0; i < packets.size(); ++i) {
    if (!packets[i].is_hidden) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [this](std::uint32_t i) { return packets[i].pts; });
  return order;
}

// A key packet takes the place of those before it that are shown after it: whoever may begin at one of them may begin
// at it. So the ones that are left are in the order of both decoding and showing.
std::vector<std::uint32_t> VideoTable::entries() const {
  std::vector<std::uint32_t> entries(packets.size(), 0);
  std::vector<std::uint32_t> keys;
  const auto pts_of = [this](std::uint32_t packet) { return packets[packet].pts; };
  for (std::uint32_t i = 0; i < packets.size(); ++i) {
    if (packets[i].is_key) {
      while (!keys.empty() && pts_of(keys.back()) >= packets[i].pts) keys.pop_back();
      keys.push_back(i);
    }
    const auto after = std::ranges::upper_bound(keys, packets[i].pts, {}, pts_of);
    if (after != keys.begin()) entries[i] = *(after - 1);
  }
  return entries;
}

std::uint32_t VideoTable::delay() const {
  // For each packet how many before it are shown after it: of the last few, sorted.
  constexpr std::size_t kMost = 16;
  std::vector<std::int64_t> last;
  std::size_t most = 0;
  for (const Packet& packet : packets) {
    const auto place = std::ranges::upper_bound(last, packet.pts);
    most = std::max(most, static_cast<std::size_t>(last.end() - place));
    last.insert(place, packet.pts);
    if (last.size() > kMost) last.erase(last.begin());
  }
  return static_cast<std::uint32_t>(most);
}

std::vector<std::byte> VideoTable::serialize() const {
  Writer out;
  out.number(kVersion);
  for (const std::string* name : {&codec, &pixel_format}) out.block(std::as_bytes(std::span(*name)));
  out.block(extradata);
  out.number(tag);
  for (const std::int32_t value : {profile, level, bits_per_sample, width, height, orientation}) out.folded(value);
  for (const std::uint64_t value : {first, starts, end}) out.number(value);
  out.number(packets.size());
  Packet last;
  for (const Packet& packet : packets) {
    out.number(std::uint64_t{packet.bytes} << 3U | (packet.is_key ? 4U : 0U) | (packet.is_disposable ? 2U : 0U) |
               (packet.is_hidden ? 1U : 0U));
    out.folded(minus(static_cast<std::int64_t>(packet.offset), static_cast<std::int64_t>(last.offset + last.bytes)));
    out.folded(minus(packet.pts, last.pts));
    last = packet;
  }
  return out.take();
}

VideoTable VideoTable::parse(std::span<const std::byte> bytes, std::size_t& length) {
  Reader in(bytes);
  if (in.number() != kVersion) fail();
  VideoTable table;
  table.codec = in.name();
  table.pixel_format = in.name();
  const auto extradata = in.block(kLongestExtradata);
  table.extradata.assign(extradata.begin(), extradata.end());
  table.tag = static_cast<std::uint32_t>(in.number(UINT32_MAX));
  for (std::int32_t* value :
       {&table.profile, &table.level, &table.bits_per_sample, &table.width, &table.height, &table.orientation}) {
    *value = in.small();
  }
  for (std::uint64_t* value : {&table.first, &table.starts, &table.end}) *value = in.number(kMostPackets);
  const std::uint64_t count = in.number(kMostPackets);
  if (table.width < 1 || table.height < 1 || table.orientation < 1 || table.orientation > 8 || count > in.left())
    fail();
  table.packets.reserve(static_cast<std::size_t>(count));
  Packet packet;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = in.number(std::uint64_t{UINT32_MAX} << 3U | 7U);
    packet.offset =
        static_cast<std::uint64_t>(plus(static_cast<std::int64_t>(packet.offset + packet.bytes), in.folded()));
    packet.pts = plus(packet.pts, in.folded());
    packet.bytes = static_cast<std::uint32_t>(size >> 3U);
    packet.is_key = (size & 4U) != 0;
    packet.is_disposable = (size & 2U) != 0;
    packet.is_hidden = (size & 1U) != 0;
    table.packets.push_back(packet);
  }
  length = bytes.size() - in.left();
  return table;
}

VideoFacts facts_of(std::span<const std::byte> table) {
  std::size_t length = 0;
  const VideoTable video = VideoTable::parse(table, length);
  return {.frames = count_shown(video), .width = video.width, .height = video.height, .orientation = video.orientation};
}

ClipBytes clip_bytes(std::span<const std::byte> table, std::uint64_t first, std::uint64_t starts,
                     const ClipRule& rule) {
  std::size_t length = 0;
  VideoTable video = VideoTable::parse(table, length);
  const std::vector<std::uint32_t> shown = video.shown();
  const std::uint64_t end = std::min<std::uint64_t>(first + starts - 1 + rule.span(), shown.size());
  if (starts == 0 || first + starts > shown.size()) fail();

  std::uint32_t begin_packet = UINT32_MAX;
  std::uint32_t last_packet = 0;
  const std::vector<std::uint32_t> entries = video.entries();
  for (std::uint64_t frame = first; frame < end; ++frame) {
    begin_packet = std::min(begin_packet, entries[shown[frame]]);
    last_packet = std::max(last_packet, shown[frame]);
  }
  VideoTable clip = video;
  clip.packets.assign(video.packets.begin() + begin_packet, video.packets.begin() + last_packet + 1);
  ClipBytes bytes;
  bytes.offset = std::ranges::min(clip.packets, {}, &Packet::offset).offset;
  for (Packet& packet : clip.packets) {
    packet.offset -= bytes.offset;
    bytes.length = std::max(bytes.length, packet.offset + packet.bytes);
  }
  const std::vector<std::uint32_t> shown_of_clip = clip.shown();
  clip.first =
      static_cast<std::uint64_t>(std::ranges::find(shown_of_clip, shown[first] - begin_packet) - shown_of_clip.begin());
  clip.starts = starts;
  clip.end = clip.first + (end - first);
  bytes.table = clip.serialize();
  return bytes;
}

}  // namespace forebay::video

// A video's table as bytes, and the part of it that a clip needs.
//
// Numbers that may be below zero are folded (0, -1, 1, -2, ...). A packet is stored as its size
// with three flags in the lowest bits, the distance of its place from the end of the previous
// packet, and the difference of its rank from the previous packet's: about four bytes, or five if
// audio lies in between.

#include "video_table.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/varint.hpp"
#include "clip.hpp"

namespace forebay::video {
namespace {

constexpr std::uint64_t kVersion = 2;
constexpr std::uint32_t kMostDelay = 16;  // of any codec

class Writer {
 public:
  void number(std::uint64_t value) { put_varint(bytes_, value); }
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
    const std::optional<std::uint64_t> value = take_varint(rest_);
    if (!value) fail();
    return *value;
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

// Whether each place in the order of showing is one packet's.
bool are_ranked(std::span<const Packet> packets) {
  std::vector<bool> taken(packets.size());
  for (const Packet& packet : packets) {
    if (packet.rank >= packets.size() || taken[packet.rank]) return false;
    taken[packet.rank] = true;
  }
  return true;
}

}  // namespace

void VideoTable::rank_by(std::span<const std::int64_t> times) {
  std::vector<std::uint32_t> order(packets.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [times](std::uint32_t i) { return times[i]; });
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) packets[order[rank]].rank = rank;
}

std::vector<std::uint32_t> VideoTable::shown() const {
  std::vector<std::uint32_t> order(packets.size());
  for (std::uint32_t i = 0; i < packets.size(); ++i) order[packets[i].rank] = i;
  std::erase_if(order, [this](std::uint32_t i) { return packets[i].is_hidden; });
  return order;
}

// A key packet takes the place of those before it that are shown after it: whoever may begin at one of them may begin
// at it. So the ones that are left are in the order of both decoding and showing.
std::vector<std::uint32_t> VideoTable::entries(std::span<const std::uint32_t> of) const {
  std::vector<std::uint32_t> entries;
  std::vector<std::uint32_t> keys;
  const auto rank_of = [this](std::uint32_t packet) { return packets[packet].rank; };
  std::uint32_t i = 0;
  for (const std::uint32_t wanted : of) {
    for (; i <= wanted; ++i) {
      if (!packets[i].is_key) continue;
      while (!keys.empty() && rank_of(keys.back()) > packets[i].rank) keys.pop_back();
      keys.push_back(i);
    }
    const auto after = std::ranges::upper_bound(keys, packets[wanted].rank, {}, rank_of);
    entries.push_back(after == keys.begin() ? 0 : *(after - 1));
  }
  return entries;
}

std::uint32_t delay_of(std::span<const Packet> packets) {
  // For each packet how many before it are shown after it: of the last few, sorted.
  constexpr std::size_t kMost = 16;
  std::vector<std::uint32_t> last;
  std::size_t most = 0;
  for (const Packet& packet : packets) {
    const auto place = std::ranges::upper_bound(last, packet.rank);
    most = std::max(most, static_cast<std::size_t>(last.end() - place));
    last.insert(place, packet.rank);
    if (last.size() > kMost) last.erase(last.begin());
  }
  return static_cast<std::uint32_t>(most);
}

std::vector<std::byte> VideoTable::serialize() const {
  Writer out;
  out.number(kVersion);
  for (const std::string* name : {&stream.codec, &stream.pixel_format}) out.block(std::as_bytes(std::span(*name)));
  out.block(stream.extradata);
  for (const std::uint32_t value : {stream.tag, stream.delay}) out.number(value);
  for (const std::int32_t value : {stream.profile, stream.level, stream.bits_per_sample, stream.width, stream.height,
                                   stream.colour_range, stream.matrix, orientation}) {
    out.folded(value);
  }
  for (const std::uint64_t value : {first, starts, end}) out.number(value);
  out.number(packets.size());
  Packet last;
  for (const Packet& packet : packets) {
    out.number(std::uint64_t{packet.bytes} << 3U | (packet.is_key ? 4U : 0U) | (packet.is_disposable ? 2U : 0U) |
               (packet.is_hidden ? 1U : 0U));
    out.folded(minus(static_cast<std::int64_t>(packet.offset), static_cast<std::int64_t>(last.offset + last.bytes)));
    out.folded(std::int64_t{packet.rank} - last.rank);
    last = packet;
  }
  return out.take();
}

VideoTable VideoTable::parse(std::span<const std::byte> bytes, std::size_t& length) {
  Reader in(bytes);
  if (in.number() != kVersion) fail();
  VideoTable table;
  StreamParameters& stream = table.stream;
  stream.codec = in.name();
  stream.pixel_format = in.name();
  const auto extradata = in.block(StreamParameters::kLongestExtradata);
  stream.extradata.assign(extradata.begin(), extradata.end());
  for (std::uint32_t* value : {&stream.tag, &stream.delay}) *value = static_cast<std::uint32_t>(in.number(UINT32_MAX));
  for (std::int32_t* value : {&stream.profile, &stream.level, &stream.bits_per_sample, &stream.width, &stream.height,
                              &stream.colour_range, &stream.matrix, &table.orientation}) {
    *value = in.small();
  }
  for (std::uint64_t* value : {&table.first, &table.starts, &table.end}) *value = in.number(kMostPackets);
  const std::uint64_t count = in.number(kMostPackets);
  constexpr std::int32_t kMostRange = 2;
  constexpr std::int32_t kMostMatrix = 255;
  if (stream.colour_range < 0 || stream.colour_range > kMostRange || stream.matrix < 0 || stream.matrix > kMostMatrix ||
      stream.width < 1 || stream.height < 1 || stream.delay > kMostDelay || table.orientation < 1 ||
      table.orientation > 8 || count > in.left()) {
    fail();
  }
  table.packets.reserve(static_cast<std::size_t>(count));
  Packet packet;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = in.number(std::uint64_t{UINT32_MAX} << 3U | 7U);
    packet.offset =
        static_cast<std::uint64_t>(plus(static_cast<std::int64_t>(packet.offset + packet.bytes), in.folded()));
    packet.rank = static_cast<std::uint32_t>(plus(packet.rank, in.folded()));
    packet.bytes = static_cast<std::uint32_t>(size >> 3U);
    packet.is_key = (size & 4U) != 0;
    packet.is_disposable = (size & 2U) != 0;
    packet.is_hidden = (size & 1U) != 0;
    table.packets.push_back(packet);
  }
  if (!are_ranked(table.packets)) fail();
  length = bytes.size() - in.left();
  return table;
}

IndexedVideo::IndexedVideo(std::span<const std::byte> table) {
  std::size_t length = 0;
  video_ = VideoTable::parse(table, length);
  shown_ = video_.shown();
}

VideoFacts IndexedVideo::facts() const noexcept {
  return {.frames = shown_.size(),
          .width = video_.stream.width,
          .height = video_.stream.height,
          .orientation = video_.orientation};
}

ClipBytes IndexedVideo::clip(std::uint64_t first, std::uint64_t starts, const ClipRule& rule, std::uint64_t end) const {
  end = std::min<std::uint64_t>(end, shown_.size());
  if (starts == 0 || starts > end || first > end - starts)
    throw SampleError("damaged: a clip after the end of its video");
  end = std::min(first + starts - 1 + rule.span(), end);

  const auto frame = [this](std::uint64_t number) { return shown_.begin() + static_cast<std::ptrdiff_t>(number); };
  std::vector<std::uint32_t> wanted(frame(first), frame(end));
  std::ranges::sort(wanted);
  const std::uint32_t begin = std::ranges::min(video_.entries(wanted));
  VideoTable clip{.stream = video_.stream, .orientation = video_.orientation};
  clip.packets.assign(video_.packets.begin() + begin, video_.packets.begin() + wanted.back() + 1);
  std::vector<std::int64_t> ranks;
  ClipBytes bytes{.offset = std::ranges::min(clip.packets, {}, &Packet::offset).offset};
  for (Packet& packet : clip.packets) {
    packet.offset -= bytes.offset;
    bytes.length = std::max(bytes.length, packet.offset + packet.bytes);
    ranks.push_back(packet.rank);
  }
  clip.rank_by(ranks);
  const std::vector<std::uint32_t> shown = clip.shown();
  clip.first = static_cast<std::uint64_t>(std::ranges::find(shown, *frame(first) - begin) - shown.begin());
  clip.starts = starts;
  clip.end = clip.first + (end - first);
  bytes.table = clip.serialize();
  return bytes;
}

}  // namespace forebay::video

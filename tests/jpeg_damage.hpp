#pragma once

#include "jpeg_parts.hpp"
#include "support.hpp"

// Damages JPEG files in ways that disks, networks and attackers do.
namespace forebay::testing {

using JpegBytes = std::vector<std::byte>;

inline std::byte any_byte(Random& random) { return static_cast<std::byte>(random.bits() & 0xffU); }

// The offset of the last scan's entropy-coded data; the end of the file if there is none.
inline std::size_t begin_of_scan(const JpegBytes& file) {
  for (std::size_t at = file.size() < 4 ? 0 : file.size() - 4; at > 0; --at) {
    if (file[at] != std::byte{0xff} || file[at + 1] != std::byte{0xda}) continue;
    const auto length = std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
    if (length < 64) return std::min(at + 2 + length, file.size());
  }
  return file.size();
}

// An offset in the scan or, less often, anywhere after the first marker.
inline std::size_t place_in(const JpegBytes& file, Random& random) {
  const std::size_t scan = begin_of_scan(file);
  if (scan < file.size() && random.below(4) != 0) return scan + random.below(file.size() - scan);
  return 2 + random.below(file.size() - 2);
}

// A marker that has a meaning in a scan, or next to one.
inline std::byte any_marker(Random& random) {
  constexpr std::uint8_t kMarkers[] = {0xd0, 0xd1, 0xd2, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xc4, 0xdd, 0xff, 0x00};
  return static_cast<std::byte>(kMarkers[random.below(std::size(kMarkers))]);
}

// A segment of the header: its marker and its offsets, which include the marker.
struct Segment {
  std::uint8_t marker = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

inline std::vector<Segment> segments_of(const JpegBytes& file) {
  std::vector<Segment> all;
  for (std::size_t at = 2; at + 4 <= file.size() && file[at] == std::byte{0xff};) {
    const auto length = std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
    const std::size_t end = at + 2 + length;
    if (length < 2 || end > file.size()) break;
    all.push_back({std::to_integer<std::uint8_t>(file[at + 1]), at, end});
    at = end;
  }
  return all;
}

// Damages a header segment: changes a few bytes to values that are significant there, or moves,
// repeats or removes it.
inline void damage_segment(JpegBytes& file, Random& random) {
  const std::vector<Segment> all = segments_of(file);
  if (all.empty()) return;
  const Segment segment = all[random.below(all.size())];
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(segment.begin);
  const auto size = static_cast<std::ptrdiff_t>(segment.end - segment.begin);
  constexpr std::uint8_t kTelling[] = {0,    1,    2,    3,    4,    8,    0x0f, 0x10, 0x11,
                                       0x12, 0x21, 0x22, 0x3f, 0x41, 0x80, 0xf0, 0xff};
  switch (random.below(8)) {
    case 0: file.erase(begin, begin + size); return;
    case 1: {  // a copy of it before some segment
      const JpegBytes copy(begin, begin + size);
      const std::size_t to = all[random.below(all.size())].begin;
      file.insert(file.begin() + static_cast<std::ptrdiff_t>(to), copy.begin(), copy.end());
      return;
    }
    case 2: {  // two bytes are swapped: counts of codes, symbols, components of a scan
      if (size < 6) return;
      const auto any = [&] {
        return begin + 4 + static_cast<std::ptrdiff_t>(random.below(static_cast<std::uint64_t>(size - 4)));
      };
      std::iter_swap(any(), any());
      return;
    }
    case 3: {  // an additional restart interval
      const JpegBytes restarts{std::byte{0xff}, std::byte{0xdd}, std::byte{0},
                               std::byte{4},    std::byte{0},    static_cast<std::byte>(random.below(7))};
      file.insert(begin, restarts.begin(), restarts.end());
      return;
    }
    default:
      for (std::uint64_t i = 0, n = 1 + random.below(2); i < n && size > 4; ++i) {
        begin[4 + static_cast<std::ptrdiff_t>(random.below(static_cast<std::uint64_t>(size - 4)))] =
            random.below(2) == 0 ? any_byte(random)
                                 : static_cast<std::byte>(kTelling[random.below(std::size(kTelling))]);
      }
  }
}

// Changes a marker or a stuffed byte in a scan; nothing if there is none.
inline void damage_markers(JpegBytes& file, Random& random) {
  std::vector<std::size_t> places;
  for (std::size_t at = begin_of_scan(file); at + 1 < file.size(); ++at) {
    if (file[at] == std::byte{0xff}) places.push_back(at);
  }
  if (places.empty()) return;
  const auto place = file.begin() + static_cast<std::ptrdiff_t>(places[random.below(places.size())]);
  switch (random.below(4)) {
    case 0: file.erase(place + 1); return;
    case 1: file.erase(place, place + 2); return;
    case 2: place[1] = any_marker(random); return;
    default: place[1] = static_cast<std::byte>(0xd0 + random.below(8)); return;
  }
}

// Damages a file once. REQUIRES: it has at least 8 bytes.
inline void damage(JpegBytes& file, Random& random) {
  if (random.below(8) == 0) return damage_segment(file, random);
  if (random.below(12) == 0) return damage_markers(file, random);
  const std::size_t at = place_in(file, random);
  const auto place = file.begin() + static_cast<std::ptrdiff_t>(at);
  const auto upto = [&](std::uint64_t most) {
    return static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(file.size() - at, 1 + random.below(most)));
  };
  switch (random.below(10)) {
    case 0:
    case 1:
    case 2: *place ^= static_cast<std::byte>(1U << random.below(8)); return;
    case 3: *place = any_byte(random); return;
    case 4: file.insert(place, {std::byte{0xff}, any_marker(random)}); return;
    case 5: file.erase(place, place + upto(4)); return;
    case 6: file.erase(place, file.end()); return;
    case 7: {  // truncated, with an end marker
      file.erase(place, file.end());
      file.insert(file.end(), {std::byte{0xff}, std::byte{0xd9}});
      return;
    }
    case 8: {  // a repeated piece
      const JpegBytes again(place, place + upto(32));
      file.insert(place, again.begin(), again.end());
      return;
    }
    default: {  // inserted before the end
      if (file.size() < 4) return;
      const JpegBytes more{std::byte{0xff}, any_marker(random), any_byte(random)};
      file.insert(file.end() - 2, more.begin(), more.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(3)));
      return;
    }
  }
}

// Kinds of damage that occur in practice, anywhere after the first marker.
enum class FieldDamage { bit, overwritten, zeroed, swapped, inserted, deleted, truncated };
inline constexpr int kFieldDamages = 7;

// Blocks have the size of a page, or an eighth of a small file. REQUIRES: the file has 64 bytes or
// more.
inline void damage_as(FieldDamage kind, JpegBytes& file, Random& random) {
  const auto block = static_cast<std::ptrdiff_t>(std::min<std::size_t>(4096, file.size() / 8));
  const auto place = [&](std::ptrdiff_t room) {
    const auto places = static_cast<std::uint64_t>(static_cast<std::ptrdiff_t>(file.size()) - 2 - room);
    return file.begin() + 2 + static_cast<std::ptrdiff_t>(random.below(places));
  };
  switch (kind) {
    case FieldDamage::bit: *place(0) ^= static_cast<std::byte>(1U << random.below(8)); return;
    case FieldDamage::overwritten: {
      const auto begin = place(block);
      std::generate(begin, begin + block, [&] { return any_byte(random); });
      return;
    }
    case FieldDamage::zeroed: std::fill_n(place(block), block, std::byte{0}); return;
    case FieldDamage::swapped: {
      const auto one = place(2 * block);
      std::swap_ranges(one, one + block, one + block);
      return;
    }
    case FieldDamage::inserted: {
      JpegBytes more(1 + random.below(16));
      std::generate(more.begin(), more.end(), [&] { return any_byte(random); });
      file.insert(place(0), more.begin(), more.end());
      return;
    }
    case FieldDamage::deleted: {
      const auto count = 1 + static_cast<std::ptrdiff_t>(random.below(16));
      const auto begin = place(count);
      file.erase(begin, begin + count);
      return;
    }
    case FieldDamage::truncated: file.erase(place(0), file.end()); return;
  }
}

}  // namespace forebay::testing

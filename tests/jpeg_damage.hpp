#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/random.hpp>

#include "jpeg_parts.hpp"

// Damage to JPEG files, of the kinds that disks, networks and attackers do.
namespace forebay::testing {

using JpegBytes = std::vector<std::byte>;

inline std::byte any_byte(Random& random) { return static_cast<std::byte>(random.bits() & 0xffU); }

// Where the entropy-coded data of the last scan begin; the end of the file where none does.
inline std::size_t begin_of_scan(const JpegBytes& file) {
  for (std::size_t at = file.size() < 4 ? 0 : file.size() - 4; at > 0; --at) {
    if (file[at] != std::byte{0xff} || file[at + 1] != std::byte{0xda}) continue;
    const auto length = std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
    if (length < 64) return std::min(at + 2 + length, file.size());
  }
  return file.size();
}

// A place in the scan or, less often, anywhere behind the first marker.
inline std::size_t place_in(const JpegBytes& file, Random& random) {
  const std::size_t scan = begin_of_scan(file);
  if (scan < file.size() && random.below(4) != 0) return scan + random.below(file.size() - scan);
  return 2 + random.below(file.size() - 2);
}

// A marker that means something in a scan, or next to it.
inline std::byte any_marker(Random& random) {
  constexpr std::uint8_t kMarkers[] = {0xd0, 0xd1, 0xd2, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xc4, 0xdd, 0xff, 0x00};
  return static_cast<std::byte>(kMarkers[random.below(std::size(kMarkers))]);
}

// Damages a file of at least 8 bytes once.
inline void damage(JpegBytes& file, Random& random) {
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
    case 7: {  // cut, with an end marker
      file.erase(place, file.end());
      file.insert(file.end(), {std::byte{0xff}, std::byte{0xd9}});
      return;
    }
    case 8: {  // something once more
      const JpegBytes again(place, place + upto(32));
      file.insert(place, again.begin(), again.end());
      return;
    }
    default: {  // before the end
      if (file.size() < 4) return;
      const JpegBytes more{std::byte{0xff}, any_marker(random), any_byte(random)};
      file.insert(file.end() - 2, more.begin(), more.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(3)));
      return;
    }
  }
}

}  // namespace forebay::testing

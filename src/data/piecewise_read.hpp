#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace forebay::data {

// Reads pieces of a file that are close together in one request, including what lies between them. One thread at a
// time.
class PiecewiseRead {
 public:
  // Reads the bytes from `offset` on into `place`. REQUIRES: the piece begins at or after the end of the last one, or
  // is the same again.
  void add(std::uint64_t offset, std::span<std::byte> place);
  // Also reads the bytes [begin, end), the last four of which are the masked CRC-32C of the others. REQUIRES: ranges
  // ascend and do not overlap.
  void add_checked(std::uint64_t begin, std::uint64_t end) { checked_.push_back({begin, end}); }

  // Reads the pieces: `read` fills memory piece by piece from an offset on, in one request. Throws what `read` throws,
  // and SampleError if a checksum is wrong. REQUIRES: there are pieces.
  using Read = std::function<void(std::uint64_t offset, std::span<const std::span<std::byte>> pieces)>;
  void read(const Read& read) const;

 private:
  struct Piece {
    std::uint64_t offset = 0;
    std::span<std::byte> place;
    [[nodiscard]] std::uint64_t end() const noexcept { return offset + place.size(); }
  };
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  [[nodiscard]] Range hull() const noexcept;
  static void check(std::span<const Piece> pieces, const Range& range);

  std::vector<Piece> pieces_;
  std::vector<Range> checked_;
  std::vector<std::pair<std::span<const std::byte>, std::span<std::byte>>> copies_;  // for pieces that were added twice
};

}  // namespace forebay::data

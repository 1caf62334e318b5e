#include "piecewise_read.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "record_checksum.hpp"

namespace forebay::data {
namespace {

constexpr std::size_t kAtOnce = 1024;  // the most pieces per system call (IOV_MAX)

}  // namespace

// The same piece again, as for two objects of one image, is read once and copied afterwards.
void PiecewiseRead::add(std::uint64_t offset, std::span<std::byte> place) {
  if (place.empty()) return;
  if (!pieces_.empty() && pieces_.back().offset == offset && pieces_.back().place.size() == place.size()) {
    copies_.emplace_back(pieces_.back().place, place);
  } else {
    pieces_.push_back({offset, place});
  }
}

// Pieces and checked ranges ascend, so the first and the last of each are the extremes.
PiecewiseRead::Range PiecewiseRead::hull() const noexcept {
  Range hull{pieces_.front().offset, pieces_.back().end()};
  if (!checked_.empty()) hull.begin = std::min(hull.begin, checked_.front().begin);
  if (!checked_.empty()) hull.end = std::max(hull.end, checked_.back().end);
  return hull;
}

// preadv() fills buffers with consecutive bytes of the file. So the gaps between the wanted pieces
// get memory too, from one block that is discarded. While gaps are small, which the caller has
// decided, this is cheaper than one request per piece. Checksums are verified after all requests;
// copies come last, so that they are of verified bytes.
void PiecewiseRead::read(const Read& read) const {
  const Range all = hull();
  std::size_t between = all.end - all.begin;
  for (const Piece& piece : pieces_) between -= piece.place.size();
  std::vector<std::byte> unwanted = memory_around_record(between);
  std::vector<Piece> pieces;  // including the gaps
  pieces.reserve(2 * pieces_.size() + 1);
  std::uint64_t at = all.begin;
  std::span<std::byte> rest = unwanted;
  const auto skip_to = [&](std::uint64_t offset) {
    if (offset == at) return;
    pieces.push_back({at, rest.first(static_cast<std::size_t>(offset - at))});
    rest = rest.subspan(pieces.back().place.size());
  };
  for (const Piece& piece : pieces_) {
    skip_to(piece.offset);
    pieces.push_back(piece);
    at = piece.end();
  }
  skip_to(all.end);

  std::vector<std::span<std::byte>> places;
  places.reserve(std::min(pieces.size(), kAtOnce));
  for (std::size_t first = 0; first < pieces.size(); first += kAtOnce) {
    places.clear();
    for (std::size_t i = first; i < std::min(first + kAtOnce, pieces.size()); ++i) places.push_back(pieces[i].place);
    read(pieces[first].offset, places);
  }
  for (const Range& range : checked_) check(pieces, range);
  for (const auto& [from, to] : copies_) std::ranges::copy(from, to.begin());
}

// The checked range may span several pieces, wanted ones and gaps, and so may the four bytes of its
// checksum.
void PiecewiseRead::check(std::span<const Piece> pieces, const Range& range) {
  const std::uint64_t sum_at = range.end - kRecordSum;
  std::uint32_t sum = 0;
  std::array<std::byte, kRecordSum> expected{};
  auto piece = std::ranges::upper_bound(pieces, range.begin, {}, &Piece::end);
  for (; piece != pieces.end() && piece->offset < range.end; ++piece) {
    // The part of the piece within [from, to).
    const auto part = [&](std::uint64_t from, std::uint64_t to) {
      const std::uint64_t begin = std::clamp(from, piece->offset, piece->end());
      const std::uint64_t end = std::clamp(to, begin, piece->end());
      return std::span<const std::byte>(piece->place).subspan(begin - piece->offset, end - begin);
    };
    sum = crc32c(part(range.begin, sum_at), sum);
    const auto tail = part(sum_at, range.end);
    if (!tail.empty()) std::ranges::copy(tail, expected.begin() + (std::max(piece->offset, sum_at) - sum_at));
  }
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, expected.data(), sizeof wanted);
  if (masked_crc32c(sum) != wanted) throw damaged_record(range.begin, sum_at - range.begin);
}

}  // namespace forebay::data

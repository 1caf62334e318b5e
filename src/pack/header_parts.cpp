// The headers of JPEG files from one camera or encoder are mostly alike, and for a small image they
// are a good part of the bytes. So the tables of a pack hold parts that many files share, and a
// packed file refers to them by number. HeaderPartChoice collects candidates while a dataset is
// packed: whole headers, what precedes and follows the frame's size, and single segments.
// HeaderParts writes and reads headers with the chosen parts. Packing runs on the packer's thread,
// reading on decoder threads.
//
// A header is a list of varints. The lowest bit tells whether bytes follow (1) or a part is meant
// (0); the number 0 ends the list.

#include "header_parts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace forebay::pack {
namespace {

// The most parts chosen; with more, a number would need two bytes.
constexpr std::size_t kMostChosen = 63;
// Every process that reads the pack keeps the tables in memory, so the size of a part, and of all
// together, is limited. The limits are choices.
constexpr std::size_t kMostBytesOfPart = std::size_t{16} << 10;
constexpr std::size_t kMostBytesChosen = std::size_t{48} << 10;
// Beyond this length, only the number of files that contain a part matters.
constexpr std::size_t kMostBytesCounted = std::size_t{1} << 10;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Where segments end; the last is the scan header. The first segment includes the start-of-image
// marker.
std::vector<std::size_t> ends_of(const PlainHeader& header) {
  std::vector<std::size_t> ends(header.segments.begin() + 1, header.segments.end());
  ends.push_back(header.size);
  return ends;
}

}  // namespace

HeaderParts::HeaderParts(std::vector<std::vector<std::byte>> parts) : parts_(std::move(parts)) {
  by_length_.resize(parts_.size());
  std::iota(by_length_.begin(), by_length_.end(), std::size_t{0});
  std::ranges::stable_sort(by_length_, std::ranges::greater{}, [&](std::size_t i) { return parts_[i].size(); });
  std::erase_if(by_length_, [&](std::size_t i) { return parts_[i].empty(); });
}

// The longest part that matches here and ends where a segment ends; kMostParts if there is none.
std::size_t HeaderParts::find(std::span<const std::byte> header, const std::vector<std::size_t>& ends,
                              std::size_t from) const {
  for (const std::size_t i : by_length_) {
    const std::vector<std::byte>& part = parts_[i];
    if (!std::ranges::binary_search(ends, from + part.size())) continue;
    if (std::ranges::equal(header.subspan(from, part.size()), part)) return i;
  }
  return kMostParts;
}

// Numbers: 0 ends the header, 2 * (n + 1) means part n, 2 * n + 1 precedes n bytes.
void HeaderParts::write(std::span<const std::byte> file, const PlainHeader& header, std::vector<std::byte>& out) const {
  const auto bytes = file.first(header.size);
  const auto ends = ends_of(header);
  std::size_t written = 0;
  const auto write_until = [&](std::size_t end) {
    if (end == written) return;
    put_varint(out, static_cast<std::uint32_t>(2 * (end - written) + 1));
    put_bytes(out, bytes.subspan(written, end - written));
  };
  for (std::size_t at = 0; at < header.size;) {
    const std::size_t part = find(bytes, ends, at);
    if (part == kMostParts) {
      at = *std::ranges::upper_bound(ends, at);
      continue;
    }
    write_until(at);
    put_varint(out, static_cast<std::uint32_t>(2 * (part + 1)));
    at += parts_[part].size();
    written = at;
  }
  write_until(header.size);
  put_varint(out, 0);
}

// The length is limited because damaged bytes could name parts without end.
void HeaderParts::read(ByteReader& from, std::vector<std::byte>& header) const {
  header.clear();
  while (const std::uint32_t number = from.number()) {
    std::span<const std::byte> bytes;
    if (number % 2 == 1) {
      bytes = from.bytes(number / 2);
    } else {
      if (number / 2 > parts_.size()) throw SampleError("damaged: a packed JPEG with a part of a header that is none");
      bytes = parts_[number / 2 - 1];
    }
    if (header.size() + bytes.size() > kLongestHeader)
      throw SampleError("damaged: a packed JPEG with an endless header");
    put_bytes(header, bytes);
  }
}

void HeaderPartChoice::add(std::span<const std::byte> file, const PlainHeader& header) {
  const auto bytes = file.first(header.size);
  const auto ends = ends_of(header);
  const auto frame_end = *std::ranges::upper_bound(ends, header.frame_segment);
  const auto count = [&](std::size_t begin, std::size_t end) {
    if (begin < end && end - begin <= kMostBytesOfPart) ++occurrences_[text_of(bytes.subspan(begin, end - begin))];
  };
  count(0, header.size);
  if (header.frame_segment > 0) count(0, header.frame_segment);
  count(frame_end, header.size);
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    count(begin, end);
    begin = end;
  }
}

HeaderParts HeaderPartChoice::choose() const {
  struct Candidate {
    const std::string* bytes;
    std::size_t occurrences;

    // Bytes saved: the first occurrence must be stored in the tables.
    [[nodiscard]] std::size_t worth() const noexcept {
      return (occurrences - 1) * std::min(bytes->size(), kMostBytesCounted);
    }
  };
  std::vector<Candidate> candidates;
  for (const auto& [bytes, occurrences] : occurrences_) {
    if (occurrences > 1) candidates.push_back({&bytes, occurrences});
  }
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::worth);
  std::vector<std::vector<std::byte>> parts;
  std::size_t size = 0;
  for (const Candidate& candidate : candidates) {
    if (parts.size() == kMostChosen) break;
    if (size + candidate.bytes->size() > kMostBytesChosen) continue;
    size += candidate.bytes->size();
    const auto bytes = std::as_bytes(std::span(*candidate.bytes));
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return HeaderParts(std::move(parts));
}

}  // namespace forebay::pack

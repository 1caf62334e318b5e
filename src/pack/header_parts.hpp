#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "byte_reader.hpp"
#include "plain_header.hpp"

namespace forebay::pack {

// Bytes that the headers of many files share: whole headers, the parts before and after the frame's
// size, single segments. A header is written as the numbers of such parts, interleaved with the
// bytes that none of them contains. Immutable; any thread may use it.
class HeaderParts {
 public:
  static constexpr std::size_t kMostParts = 4096;
  // A longer header is damage; each segment is shorter than 64 KiB.
  static constexpr std::size_t kLongestHeader = std::size_t{64} << 20;

  HeaderParts() = default;
  explicit HeaderParts(std::vector<std::vector<std::byte>> parts);

  [[nodiscard]] const std::vector<std::vector<std::byte>>& parts() const noexcept { return parts_; }

  // Writes the first header.size bytes of the file.
  void write(std::span<const std::byte> file, const PlainHeader& header, std::vector<std::byte>& out) const;
  // The inverse of write(). Throws SampleError for bytes that write() cannot have written.
  void read(ByteReader& from, std::vector<std::byte>& header) const;

 private:
  // The longest part that matches the header at `from` and ends at the end of a segment; kMostParts
  // if there is none.
  [[nodiscard]] std::size_t find(std::span<const std::byte> header, const std::vector<std::size_t>& ends,
                                 std::size_t from) const;

  std::vector<std::vector<std::byte>> parts_;
  std::vector<std::size_t> by_length_;  // numbers of parts, longest first
};

// Chooses the parts that save the most, within limits, because every process holds the tables. For
// one thread.
class HeaderPartChoice {
 public:
  void add(std::span<const std::byte> file, const PlainHeader& header);
  [[nodiscard]] HeaderParts choose() const;

 private:
  std::map<std::string, std::size_t> occurrences_;
};

}  // namespace forebay::pack

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "container_bytes.hpp"

namespace forebay::data {

// A member of a tar archive.
struct TarMember {
  enum class Kind : std::uint8_t { file, sparse, link, other };  // other: a folder, a device

  std::string name;
  Kind kind = Kind::other;
  std::uint64_t header = 0;  // where its header begins
  std::string problem;       // what is wrong with its pax header, if anything: name and size may then be wrong
  Extent contents;
};

// Reads the members of a tar archive in order. Supports V7, ustar, GNU and pax archives, with their long names. Ends at
// the first block of zeros, as tar itself does, or at the end of the file. No number in a header is trusted.
class TarReader {
 public:
  explicit TarReader(ContainerBytes& bytes) : bytes_(bytes) {}

  // False at the end. Throws SampleError with the byte where the archive is damaged; reading cannot continue after
  // that.
  [[nodiscard]] bool next(TarMember& member);

  // What is unusual about the end of the archive: no end marker, bytes after it; "" if nothing. REQUIRES: next() has
  // returned false. Throws SampleError if the file cannot be read.
  [[nodiscard]] std::string problem_of_end();

 private:
  using Headers = std::map<std::string, std::string, std::less<>>;  // of pax

  // The header at the current position. False for a block of zeros.
  [[nodiscard]] bool read_header();
  [[nodiscard]] std::string field(std::size_t at, std::size_t length) const;
  [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t length) const;
  [[nodiscard]] std::string name() const;
  // The contents after the header, `length` bytes. Moves the position past them.
  [[nodiscard]] Extent take(std::uint64_t length);
  void skip_sparse_maps();
  [[nodiscard]] static Headers parse(std::string_view text, std::uint64_t at);
  [[nodiscard]] const std::string* header(std::string_view key) const;
  [[nodiscard]] bool is_sparse(char type) const;

  ContainerBytes& bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t begins_ = 0;  // where the current header begins
  std::array<char, 512> block_{};
  // From the headers that precede a member's own header.
  std::string long_name_;
  Headers headers_;
  std::string problem_;
  Headers global_headers_;
};

// Whether the bytes begin a tar archive.
[[nodiscard]] bool starts_as_tar(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"

namespace forebay::data {

// A member of a zip archive, as the archive's directory describes it.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0;  // offset of its local header in the archive
  std::uint64_t packed = 0;  // bytes in the archive
  std::uint64_t bytes = 0;   // size of its contents
  std::uint32_t sum = 0;     // CRC-32 of its contents
  std::uint16_t method = 0;  // 0: stored as they are, 8: deflated
  std::uint16_t flags = 0;
};

// A zip archive, Zip64 included, as NumPy writes .npz. Nothing in it is trusted: all functions throw SampleError naming
// the archive's member and the byte, and use no more memory than the size of the archive and of what is requested. Any
// thread may call the const members. REQUIRES: the file outlives it.
class ZipFile {
 public:
  // Reads the directory. Refuses archives in several parts, inconsistent directories, and members that overlap or whose
  // contents are larger than their packed bytes could produce.
  explicit ZipFile(const OpenFile& file);

  // In the order of the directory.
  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }
  // Throws SampleError for members that are encrypted or compressed by a method other than deflate.
  static void require_readable(const ZipMember& member);
  // Where the contents of a stored member begin in the archive. Also throws SampleError for deflated members.
  [[nodiscard]] std::uint64_t stored_at(const ZipMember& member) const;
  // Fills `to` with the first bytes of the contents. If it takes all of them, their checksum is verified. Also throws
  // SampleError for members that are not readable. REQUIRES: `to` is no larger than the contents.
  void read(const ZipMember& member, std::span<std::byte> to) const;
  // The directory, which contains the checksums of all members and so identifies the contents.
  [[nodiscard]] std::span<const std::byte> directory() const noexcept { return directory_; }

 private:
  struct Directory {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::uint64_t members = 0;
  };
  [[nodiscard]] Directory find_directory() const;
  [[nodiscard]] std::optional<Directory> find_directory(std::size_t bytes) const;
  [[nodiscard]] Directory wide_directory(std::uint64_t end) const;
  void read_members(const Directory& place);
  [[nodiscard]] std::uint64_t contents_at(const ZipMember& member) const;
  void inflate(const ZipMember& member, std::uint64_t at, std::span<std::byte> to) const;

  const OpenFile& file_;
  std::uint64_t begin_of_directory_ = 0;
  std::vector<std::byte> directory_;
  std::vector<ZipMember> members_;
};

// Whether the bytes begin a zip archive with at least one member.
[[nodiscard]] bool starts_as_zip(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data

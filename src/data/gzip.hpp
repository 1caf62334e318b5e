#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/file_io.hpp"

namespace forebay::data {

// Bytes in order, from a plain file or from inside a gzip file.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills as much of `bytes` as there is; fewer only at the end. Throws SampleError.
  virtual std::size_t read(std::span<std::byte> bytes) = 0;
  // Bytes after the end of the gzip data, which belong to nothing.
  [[nodiscard]] virtual std::size_t trailing() const noexcept { return 0; }
};

// True for bytes that begin a gzip file (RFC 1952, section 2.3.1).
[[nodiscard]] bool starts_as_gzip(std::span<const std::byte> head) noexcept;

// The contents of a gzip file, member after member, decompressed as they are read. Data after the last member is left
// alone, as gzip itself does. REQUIRES: `file` outlives the source.
[[nodiscard]] std::unique_ptr<ByteSource> open_gzip(const OpenFile& file);

// What a compressed file of so many bytes may become: its contents go into the index. So there is a limit for all
// files, and a smaller one for small files.
[[nodiscard]] std::uint64_t largest_inflated(std::uint64_t file_bytes);

}  // namespace forebay::data

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "base/file_io.hpp"

namespace forebay::data {

// Sequential bytes of a plain file or of the content of a gzip file.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to bytes.size() bytes and returns how many; fewer only at the end. Throws SampleError.
  virtual std::size_t read(std::span<std::byte> bytes) = 0;
  // The number of stray bytes after the end of the gzip data.
  [[nodiscard]] virtual std::size_t trailing() const noexcept { return 0; }
};

// True for bytes that begin a gzip file (RFC 1952, section 2.3.1).
[[nodiscard]] bool starts_as_gzip(std::span<const std::byte> head) noexcept;

// The content of a gzip file, member after member, decompressed as it is read. Data after the last member are ignored,
// as by gzip itself. REQUIRES: `file` outlives the source.
[[nodiscard]] std::unique_ptr<ByteSource> open_gzip(const OpenFile& file);

// The most that a compressed file of this size may inflate to. Its content goes into the index, so there is a limit for
// all files, and a lower one for small files.
[[nodiscard]] std::uint64_t largest_inflated(std::uint64_t file_bytes);

// A range of bytes in a container.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length; }
};

// The bytes of a container, of which a builder reads only a few: headers and labels, hardly any image. A plain file is
// read a window at a time, so that headers close to each other cost one read. Compressed content is held decompressed
// in memory. Numbers are little-endian. One thread at a time.
class ContainerBytes {
 public:
  // REQUIRES: the file outlives this.
  explicit ContainerBytes(const OpenFile& file) : file_(&file), size_(file.size) {}
  // REQUIRES: the bytes outlive this.
  explicit ContainerBytes(std::span<const std::byte> bytes) : memory_(bytes), size_(bytes.size()) {}

  [[nodiscard]] bool is_in_memory() const noexcept { return file_ == nullptr; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Whether these bytes exist. Does not overflow, whatever the numbers.
  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t length) const noexcept {
    return offset <= size_ && length <= size_ - offset;
  }
  // Valid until the next call. Throws SampleError if they do not exist or cannot be read.
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::size_t length);
  [[nodiscard]] std::span<const std::byte> at(const Extent& extent) {
    return at(extent.offset, static_cast<std::size_t>(extent.length));
  }
  // The same as text.
  [[nodiscard]] std::string_view text(const Extent& extent);

  template <typename Number>
  [[nodiscard]] Number number(std::uint64_t offset) {
    Number number;
    std::memcpy(&number, at(offset, sizeof number).data(), sizeof number);
    return number;
  }

 private:
  const OpenFile* file_ = nullptr;
  std::span<const std::byte> memory_;
  std::uint64_t size_ = 0;
  std::vector<std::byte> window_;
  std::uint64_t window_begins_ = 0;
};

// SampleError("byte 123: " + problem).
[[nodiscard]] SampleError at_byte(std::uint64_t offset, std::string_view problem);

// Whether the file begins as a gzip file. Throws SampleError.
[[nodiscard]] bool is_gzip(const OpenFile& file);
// The content of a gzip file up to the first damage. Throws SampleError if it is more than an index may hold.
struct Inflated {
  std::vector<std::byte> bytes;
  std::string problem;  // "" if all is intact
};
[[nodiscard]] Inflated inflate(const OpenFile& file);

// Whether the bytes begin a picture of a kind that is common in containers: JPEG, PNG, WebP, TIFF, GIF.
[[nodiscard]] bool starts_as_picture(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data

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

// Where some bytes of a container lie.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length; }
};

// The bytes of a container, of which a builder reads few: headers and labels, hardly any image. A plain file is read a
// window at a time, so that headers with little between them cost one read. Compressed contents are in memory,
// decompressed. Numbers are little-endian. One thread at a time.
class ContainerBytes {
 public:
  // REQUIRES: the file outlives this.
  explicit ContainerBytes(const OpenFile& file) : file_(&file), size_(file.size) {}
  // REQUIRES: the bytes outlive this.
  explicit ContainerBytes(std::span<const std::byte> bytes) : memory_(bytes), size_(bytes.size()) {}

  [[nodiscard]] bool is_in_memory() const noexcept { return file_ == nullptr; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Whether these bytes exist; safe for any numbers.
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
// The contents of a gzip file up to any damage. Throws SampleError if they are more than an index may hold.
struct Inflated {
  std::vector<std::byte> bytes;
  std::string problem;  // "" when all is sound
};
[[nodiscard]] Inflated inflate(const OpenFile& file);

// Whether the bytes begin a picture of a kind that is common in containers: JPEG, PNG, WebP, TIFF, GIF.
[[nodiscard]] bool starts_as_picture(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data

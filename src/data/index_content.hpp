#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "index_format.hpp"

namespace forebay {

// Bytes and whatever keeps them where they are.
struct IndexBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
[[nodiscard]] IndexBytes owned_bytes(std::vector<std::byte> bytes);

// The bytes of an index whose header, sums and record are sound. Any thread may call.
class IndexContent {
 public:
  IndexContent(IndexLayout layout, IndexRecord record, std::string origin)
      : layout_(layout), record_(std::move(record)), origin_(std::move(origin)) {}
  virtual ~IndexContent() = default;
  IndexContent(const IndexContent&) = delete;
  IndexContent& operator=(const IndexContent&) = delete;

  // Fills `to` from the content at `offset`: what arrives there has the checksum it should have, whatever happens to
  // the index meanwhile. Throws Error that names origin and bytes. REQUIRES: offset + to.size() <= content_bytes.
  virtual void copy(std::uint64_t offset, std::span<std::byte> to) const = 0;
  // Fills `to` from all bytes of the index, header included, at `at`, unchecked. Throws Error when they cannot be read.
  // REQUIRES: at + to.size() <= size().
  virtual void copy_unchecked(std::uint64_t at, std::span<std::byte> to) const = 0;
  // Reads and checks all of the content. Throws Error at the first damaged chunk.
  virtual void check() const = 0;
  // Whether it stays in a file.
  [[nodiscard]] virtual bool is_on_disk() const noexcept = 0;

  [[nodiscard]] const IndexLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const IndexRecord& record() const noexcept { return record_; }
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }
  [[nodiscard]] std::size_t size() const noexcept { return layout_.content_at + layout_.content_bytes; }

 protected:
  [[nodiscard]] std::size_t chunks() const noexcept { return layout_.sums_bytes / sizeof(std::uint64_t); }
  [[nodiscard]] std::size_t chunk_size(std::size_t chunk) const noexcept;
  // "bytes A to B": where a part of the content stands in the index.
  [[nodiscard]] std::string place(std::uint64_t offset, std::size_t bytes) const;

 private:
  IndexLayout layout_;
  IndexRecord record_;
  std::string origin_;
};

// An index in memory. A chunk is checked when it is first used. `origin` names the bytes in errors. Throws Error.
[[nodiscard]] std::unique_ptr<IndexContent> index_in_memory(IndexBytes bytes, std::string origin);

// The largest index file that is read into memory.
inline constexpr std::size_t kMostInMemory = std::size_t{64} << 20U;

// An index file: read into memory when it has at most `most_in_memory` bytes, else left in the file and read as it is
// used, through the page cache, which the processes of a node share. What is read is checked each time, so a file that
// somebody writes into or shortens ends in an Error that says so, and never in other bytes. The file may be replaced or
// removed, as save_index() does. Throws Error naming the file.
[[nodiscard]] std::unique_ptr<IndexContent> open_index_file(const std::string& file,
                                                            std::size_t most_in_memory = kMostInMemory);

}  // namespace forebay

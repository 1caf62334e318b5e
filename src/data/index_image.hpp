#pragma once

#include <cstddef>
#include <cstdint>
#include <forebay/dataset.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "index_format.hpp"

namespace forebay::data {

// A serialized index that is read on demand; its header, sums and record have been checked. The results of content()
// and value() have matched their checksums, and callers check offsets, counts and numbers before use: damage ends in an
// Error that names the index and the bytes. Any thread may call.
class IndexImage {
 public:
  IndexImage(IndexLayout layout, IndexRecord record, std::string origin)
      : layout_(layout), record_(std::move(record)), origin_(std::move(origin)) {}
  virtual ~IndexImage() = default;
  IndexImage(const IndexImage&) = delete;
  IndexImage& operator=(const IndexImage&) = delete;

  [[nodiscard]] const IndexRecord& record() const noexcept { return record_; }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return layout_.fingerprint; }
  // Two indexes with the same identity have the same bytes, as far as 64 bits can tell.
  [[nodiscard]] std::uint64_t identity() const noexcept { return layout_.identity; }
  // The size of the whole index, and of its content.
  [[nodiscard]] std::size_t bytes() const noexcept { return layout_.state_at + layout_.state_bytes; }
  [[nodiscard]] std::size_t content_bytes() const noexcept { return layout_.content_bytes; }
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }
  // Whether it is read from a file rather than held in memory.
  [[nodiscard]] virtual bool is_on_disk() const noexcept = 0;

  // Fills `to` from the content at `offset`. The bytes have the right checksum, whatever happens to the index
  // meanwhile. Throws Error if they reach past the end or are damaged.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // A part of the content. Throws Error as read() does, before it allocates memory for bytes that do not exist.
  [[nodiscard]] std::vector<std::byte> content(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::string text(std::uint64_t offset, std::uint64_t bytes) const;
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value(std::uint64_t offset) const {
    T value{};
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // Fills `to` from byte `at` of the whole index, header included, without checking. Throws Error if it cannot be read.
  // REQUIRES: at + to.size() <= bytes().
  virtual void read_unchecked(std::uint64_t at, std::span<std::byte> to) const = 0;
  // Reads and checks all of the content and the state. Throws Error at the first damaged chunk.
  void check() const;
  // The serialized DataState. Throws Error if it cannot be read or is damaged.
  [[nodiscard]] std::vector<std::byte> state() const;

  // Throws Error("ORIGIN: a damaged index: WHAT") unless `holds`.
  void require(bool holds, std::string_view what) const;

 protected:
  [[nodiscard]] std::size_t content_at() const noexcept { return layout_.content_at; }
  [[nodiscard]] std::size_t chunks() const noexcept { return layout_.sums_bytes / sizeof(std::uint64_t); }
  [[nodiscard]] std::size_t chunk_size(std::size_t chunk) const noexcept;
  // Whether a chunk matches its checksum in `sums`.
  [[nodiscard]] static bool is_sound(std::size_t chunk, std::span<const std::byte> bytes,
                                     std::span<const std::byte> sums) noexcept;
  [[nodiscard]] Error damaged_chunk(std::size_t chunk) const;

 private:
  virtual void check_content() const = 0;
  // Implements read(). REQUIRES: offset + to.size() <= content_bytes().
  virtual void copy(std::uint64_t offset, std::span<std::byte> to) const = 0;
  void require_within(std::uint64_t offset, std::uint64_t bytes) const;

  IndexLayout layout_;
  IndexRecord record_;
  std::string origin_;
};

// Bytes, and an owner that keeps them alive.
struct IndexBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
[[nodiscard]] IndexBytes owned_bytes(std::vector<std::byte> bytes);

// An index in memory. A chunk is checked when it is first used. `origin` names the bytes in errors. Throws Error.
[[nodiscard]] std::unique_ptr<IndexImage> index_in_memory(IndexBytes bytes, std::string origin);

// The largest index file that is read into memory.
inline constexpr std::size_t kMostInMemory = std::size_t{64} << 20U;

// Opens an index file: one of at most `most_in_memory` bytes is read into memory, a larger one is read on demand
// through the page cache, which the processes of a node share. What is read is checked each time, so if somebody writes
// into the file or shortens it, an Error says so, and never are wrong bytes returned. The file may be replaced (as by
// save_index()) or removed. Throws Error naming the file.
[[nodiscard]] std::unique_ptr<IndexImage> open_index_file(const std::string& file,
                                                          std::size_t most_in_memory = kMostInMemory);

// Whether a file begins like a saved index of any version.
[[nodiscard]] bool is_saved_index(const std::string& file);
// Why no index is saved under this name, "" if one may be: an archive, a list or an image there would be lost.
[[nodiscard]] std::string problem_of_replacing(const std::string& file);

// Makes the dataset of an index. Throws Error naming the origin.
[[nodiscard]] std::unique_ptr<Dataset> restore_index(std::unique_ptr<const IndexImage> image);
// The index that a dataset is read from; null for a dataset of the program's own.
[[nodiscard]] const IndexImage* image_of(const Dataset& dataset) noexcept;
// The hash of what was read of the files of records (RecordTable::Stamp::spread), which the fingerprint leaves out
// because of a store's files it is not known. 0 if there are no such files or one is not known.
[[nodiscard]] std::uint64_t sum_of_files(const Dataset& dataset);

}  // namespace forebay::data

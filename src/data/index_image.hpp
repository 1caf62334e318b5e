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

// True for a file that begins as a saved index of any version.
[[nodiscard]] bool is_saved_index(const std::string& file);

// A serialized index of which only what is used is read. What content() and value() give has been checked, and whoever
// reads offsets, counts or numbers checks them before use: damage ends in an Error that names the index and the bytes.
// Any thread may call.
class IndexImage {
 public:
  explicit IndexImage(std::unique_ptr<const IndexContent> content) : content_(std::move(content)) {}

  [[nodiscard]] const IndexRecord& record() const noexcept { return content_->record(); }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return content_->layout().fingerprint; }
  // Two indexes with the same identity have the same bytes, as far as 64 bits can tell.
  [[nodiscard]] std::uint64_t identity() const noexcept { return content_->layout().identity; }
  // Of all of it, and of its content.
  [[nodiscard]] std::size_t bytes() const noexcept { return content_->size(); }
  [[nodiscard]] std::size_t content_bytes() const noexcept { return content_->layout().content_bytes; }
  [[nodiscard]] bool is_on_disk() const noexcept { return content_->is_on_disk(); }
  [[nodiscard]] const std::string& origin() const noexcept { return content_->origin(); }

  // Fills `to` from the content at `offset`. Throws Error when that reaches past the end or is damaged.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // A part of the content. Throws Error as read() does, before it takes memory for what is not there.
  [[nodiscard]] std::vector<std::byte> content(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::string text(std::uint64_t offset, std::uint64_t bytes) const;
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value(std::uint64_t offset) const {
    T value{};
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // Fills `to` from all of the index at `at`, as it is. Throws Error when it cannot be read.
  void read_unchecked(std::uint64_t at, std::span<std::byte> to) const { content_->copy_unchecked(at, to); }
  // Reads and checks all of the content. Throws Error at the first damaged chunk.
  void check() const { content_->check(); }

  // Throws Error("ORIGIN: a damaged index: WHAT") unless `holds`.
  void require(bool holds, std::string_view what) const;

 private:
  void require_within(std::uint64_t offset, std::uint64_t bytes) const;

  std::unique_ptr<const IndexContent> content_;
};

// What datasets over an index have in common.
class IndexedDataset : public Dataset {
 public:
  explicit IndexedDataset(std::shared_ptr<const IndexImage> image) : image_(std::move(image)) {}

  [[nodiscard]] std::string_view format() const noexcept final { return image_->record().origin.format; }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept final { return image_->record().skipped; }
  [[nodiscard]] IndexCounts counts() const noexcept final { return image_->record().counts; }
  [[nodiscard]] std::vector<std::byte> serialize() const final;
  [[nodiscard]] const IndexImage& image() const noexcept { return *image_; }

 private:
  std::shared_ptr<const IndexImage> image_;
};

// The image that a dataset is read from; null for a dataset of the program's own.
[[nodiscard]] const IndexImage* image_of(const Dataset& dataset) noexcept;
// The dataset of an index. Throws Error naming the origin.
[[nodiscard]] std::unique_ptr<Dataset> restore_index(std::unique_ptr<const IndexContent> content);

}  // namespace forebay

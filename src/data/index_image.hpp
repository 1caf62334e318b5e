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

#include "index_content.hpp"

namespace forebay {

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

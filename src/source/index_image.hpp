#pragma once

#include "index_format.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forebay/dataset.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace forebay {

// Bytes and whatever keeps them where they are.
struct IndexBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool mapped = false;  // from a file: pages come in when they are used
};
[[nodiscard]] IndexBytes owned_bytes(std::vector<std::byte> bytes);
// A file, read-only, its pages shared with every process that maps it. A file that cannot be mapped is read instead.
// The file may be replaced or removed meanwhile, as save_index() does, but not be shortened. Throws Error naming it.
[[nodiscard]] IndexBytes map_index(const std::string& file);

// True for a file that begins as a saved index of any version.
[[nodiscard]] bool is_saved_index(const std::string& file);

// A serialized index of which only what is used is read. Construction checks all but the content and reads the record;
// content is checked chunk by chunk when it is first used, and whoever reads offsets, counts or numbers from it checks
// them before use: damage ends in an Error that names the index and the bytes. Any thread may call.
class IndexImage {
 public:
  // `origin` names the bytes in errors. Throws Error.
  IndexImage(IndexBytes bytes, std::string origin);

  [[nodiscard]] const IndexRecord& record() const noexcept { return record_; }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return parts_.fingerprint; }
  // Two indexes with the same identity have the same bytes, as far as 64 bits can tell.
  [[nodiscard]] std::uint64_t identity() const noexcept { return parts_.identity; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_.bytes; }
  [[nodiscard]] bool is_mapped() const noexcept { return bytes_.mapped; }
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }
  [[nodiscard]] std::size_t content_bytes() const noexcept { return parts_.content.size(); }

  // A part of the content. Throws Error when it reaches past the end or is damaged.
  [[nodiscard]] std::span<const std::byte> content(std::uint64_t offset, std::uint64_t bytes) const;
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value(std::uint64_t offset) const {
    T value{};
    std::memcpy(&value, content(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  // Reads and checks all of the content. Throws Error at the first damaged chunk.
  void check() const;

  // Throws Error("ORIGIN: a damaged index: WHAT") unless `holds`.
  void require(bool holds, std::string_view what) const;

 private:
  void check_chunk(std::size_t chunk) const;

  IndexBytes bytes_;
  std::string origin_;
  IndexParts parts_;
  IndexRecord record_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // by chunk
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
[[nodiscard]] std::unique_ptr<Dataset> restore_index(IndexBytes bytes, std::string origin);

}  // namespace forebay

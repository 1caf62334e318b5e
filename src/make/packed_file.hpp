#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "pack/jpeg_packer.hpp"
#include "pack/pack_tables.hpp"
#include "pack/packed_jpeg.hpp"

namespace forebay::make {

// The tables of a dataset's packed JPEG files, shared by all threads. Any thread may call. The lock
// is not held while the dataset is called.
class TableCache {
 public:
  // Returns the bytes of the tables with this key, like Dataset::tables().
  using Find = std::function<std::span<const std::byte>(std::uint32_t key)>;
  explicit TableCache(Find find) : find_(std::move(find)) {}

  // Throws SampleError if there are no tables with this key, or they are damaged; the next call
  // tries again.
  [[nodiscard]] std::shared_ptr<const pack::PackTables> tables(std::uint32_t key);

 private:
  [[nodiscard]] std::shared_ptr<const pack::PackTables> find(std::uint32_t key) const;

  Find find_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<const pack::PackTables>> known_;
};

// A packed JPEG file while it is decoded. Belongs to one thread; its memory is reused from file to
// file.
class PackedFile {
 public:
  // `tables` must outlive it; null: files cannot be opened.
  explicit PackedFile(TableCache* tables) noexcept : cache_(tables) {}

  // Returns the header of the original file, for libjpeg. The bytes must stay valid. `is_checked`:
  // as in PackedJpeg::open(). Throws SampleError. REQUIRES: starts_as_packed_jpeg(bytes).
  std::span<const std::byte> open(std::span<const std::byte> bytes, bool is_checked);

  [[nodiscard]] const pack::PackedJpeg& parts() const noexcept { return parts_; }

  // The original file, valid until the next open(). Throws SampleError. REQUIRES: open() succeeded.
  std::span<const std::byte> unpack();

 private:
  TableCache* cache_;
  std::shared_ptr<const pack::PackTables> tables_;  // of the last file
  std::span<const std::byte> bytes_;
  pack::PackedJpeg parts_;
  std::optional<pack::JpegPacker> packer_;  // for these tables; created by the first unpack()
  std::vector<std::byte> file_;
};

}  // namespace forebay::make

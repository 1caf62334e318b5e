#include "packed_file.hpp"

#include <forebay/error.hpp>

namespace forebay::make {

// Shared by all decoder threads. The lock is not held while the dataset is called.
std::shared_ptr<const pack::PackTables> TableCache::tables(std::uint32_t key) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
  }
  // The dataset may be a program's own, and slow. Two threads that arrive at the same time both ask
  // it.
  auto found = find(key);
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(key, std::move(found)).first->second;
}

std::shared_ptr<const pack::PackTables> TableCache::find(std::uint32_t key) const {
  const std::span<const std::byte> bytes = find_(key);
  if (bytes.empty())
    throw SampleError("a packed JPEG, and its dataset does not have the tables that it was packed with");
  try {
    pack::PackTables tables = pack::PackTables::from_bytes(bytes);
    if (tables.key() != key) throw Error("its dataset gives other tables than it was packed with");
    return std::make_shared<const pack::PackTables>(std::move(tables));
  } catch (const Error& error) {
    throw SampleError(std::string("a packed JPEG that cannot be read: ") + error.what());
  }
}

// Tables are looked up only when the key changes: normally all files of a dataset share one set.
std::span<const std::byte> PackedFile::open(std::span<const std::byte> bytes, bool is_checked) {
  const std::uint32_t key = pack::tables_of(bytes);
  if (tables_ == nullptr || tables_->key() != key) {
    if (cache_ == nullptr) throw SampleError("a packed JPEG, which only a dataset with its tables can hold");
    tables_ = cache_->tables(key);
    packer_.reset();
  }
  bytes_ = bytes;
  parts_.open(bytes, *tables_, is_checked);
  return parts_.header();
}

std::span<const std::byte> PackedFile::unpack() {
  if (!packer_) packer_.emplace(*tables_);
  file_ = packer_->unpack(bytes_);
  return file_;
}

}  // namespace forebay::make

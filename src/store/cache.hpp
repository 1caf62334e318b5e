#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <forebay/options.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "cache_entry.hpp"
#include "cache_folder.hpp"

// A cache on the node (docs/decisions/0042-a-cache-on-the-node.md): a directory of data read from a store, shared by
// all ranks and jobs. Whatever happens to it costs only speed, because the store is then asked.
//
//   DIR/lock         locked by each process that uses the cache
//   DIR/used         how many bytes there are
//   DIR/DATA/about   dataset.path, locked by each process that reads these data; unlocked data may make room for others
//   DIR/DATA/xx/...  an entry for each object (cache_entry.hpp)
namespace forebay::store {

// The cache of one dataset. Any thread.
class NodeCache : public std::enable_shared_from_this<NodeCache> {
 public:
  // `data`: dataset.path. Throws Error if the directory cannot be used.
  NodeCache(const CacheOptions& options, const std::string& data);
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // The same file, read through the cache, or the file itself if it is not to be cached. `path`: its name.
  [[nodiscard]] OpenFile through(OpenFile file, const std::string& path) const;
  // Like store::read_object(). An object in the cache is compared with its store once per run, by a request that
  // transfers no data unless the object has changed.
  void read_object(const std::string& url, const std::function<std::span<std::byte>(std::size_t)>& reserve) const;
  // Declares that these data are no longer used, although files may be open.
  void leave() const noexcept;
  [[nodiscard]] bool has_left() const noexcept { return has_left_.load(std::memory_order_relaxed); }
  // False for a while after there was no room or the disk failed.
  [[nodiscard]] bool may_write() const noexcept;
  // The bytes that the whole cache takes on the disk, for all data.
  [[nodiscard]] std::uint64_t held() const noexcept { return use_.held(); }

 private:
  class File;

  // The object under which a file is cached; nothing if it is not to be cached. If it has no identity, it is read from
  // its store.
  [[nodiscard]] std::optional<KeptObject> object_of(const OpenFile& file, const std::string& path) const;
  [[nodiscard]] bool is_local(std::uint64_t device, const std::string& path) const;
  [[nodiscard]] std::string file_of(const std::string& name) const;
  // The entry of exactly this version, created if there is room; nothing: ask the store.
  [[nodiscard]] std::optional<CacheEntry> entry_of(const KeptObject& object) const;
  // A new entry, made with `fill` and then given its name; nothing if there is one of this name, or no room for
  // `bytes`.
  template <typename Fill>
  [[nodiscard]] std::optional<CacheEntry> publish(const KeptObject& object, std::uint64_t bytes, Fill&& fill) const;
  // Removes the entry, but not one that another process has made since.
  void remove_entry(const std::string& file, FileIdentity seen) const noexcept;
  // Reserves room for `bytes` more, removing unused data if necessary. False: there is none.
  [[nodiscard]] bool reserve(std::uint64_t bytes) const;
  [[nodiscard]] bool may_read() const noexcept;
  // Handles a failure of the directory: logs it, and stops writing, or reading, for a while.
  void fails(const char* what, int error) const;
  void fails_to_read(int error) const;

  std::string dir_;
  std::string data_;
  CacheFiles files_;
  mutable CacheUse use_;
  mutable std::mutex mutex_;  // guards what follows, and this process's count
  mutable LockFile about_;
  mutable std::mutex making_;                           // large entries
  mutable std::atomic<std::uint64_t> local_device_{0};  // twice a device, and one if it is local
  std::uint64_t device_ = 0;
  std::uint64_t limit_ = 0;
  std::int64_t begun_ns_ = 0;
  mutable std::atomic<std::int64_t> reads_again_ns_{0};
  mutable std::atomic<std::int64_t> writes_again_ns_{0};
  mutable std::atomic<bool> is_removing_{false};
  mutable std::atomic<bool> has_left_{false};
};

}  // namespace forebay::store

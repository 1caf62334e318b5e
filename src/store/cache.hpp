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

// A cache on the node (docs/decisions/0042-a-cache-on-the-node.md): a directory with what was read from a store, shared
// by all ranks and jobs. Whatever happens to it costs speed: then the store is asked.
//
//   DIR/lock         locked by each process that uses the cache
//   DIR/used         how many bytes there are
//   DIR/DATA/about   dataset.path, locked by each process that reads these data: others may be removed for room
//   DIR/DATA/xx/...  an entry for each object (cache_entry.hpp)
namespace forebay::store {

// Where the bytes of this thread's reads through a cache came from since it was last asked.
struct Traffic {
  std::uint64_t from_store = 0;
  std::uint64_t from_cache = 0;
};
[[nodiscard]] Traffic take_traffic() noexcept;

// The cache of one dataset. Any thread.
class NodeCache : public std::enable_shared_from_this<NodeCache> {
 public:
  // `data`: dataset.path. Throws Error if the directory cannot be used.
  NodeCache(const CacheOptions& options, const std::string& data);
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // The same file, read through the cache; as it is where it is not to be cached. `path`: its name.
  [[nodiscard]] OpenFile through(OpenFile file, const std::string& path) const;
  // As store::read_object. One that is in the cache is compared with its store once in a run, by a request that brings
  // no bytes unless it has changed.
  void read_object(const std::string& url, const std::function<std::span<std::byte>(std::size_t)>& reserve) const;
  // These data are not used any more, though files may be open.
  void leave() const noexcept;
  [[nodiscard]] bool has_left() const noexcept { return has_left_.load(std::memory_order_relaxed); }
  // False for a while after there was no room, or the disk failed.
  [[nodiscard]] bool may_write() const noexcept;
  // Bytes that it takes on the disk, for other data too.
  [[nodiscard]] std::uint64_t held() const noexcept { return use_.held(); }

 private:
  class File;

  // What is to be cached of a file; nothing: it is not to be. Without an identity: it is read from its store.
  [[nodiscard]] std::optional<KeptObject> object_of(const OpenFile& file, const std::string& path) const;
  [[nodiscard]] bool is_local(std::uint64_t device, const std::string& path) const;
  [[nodiscard]] std::string file_of(const std::string& name) const;
  // That of exactly this version, made if there is room; nothing: the store is to be asked.
  [[nodiscard]] std::optional<CacheEntry> entry_of(const KeptObject& object) const;
  // A new entry, made with `fill` and then given its name; nothing if there is one of this name, or no room for
  // `bytes`.
  template <typename Fill>
  [[nodiscard]] std::optional<CacheEntry> publish(const KeptObject& object, std::uint64_t bytes, Fill&& fill) const;
  // Not one that another has made since.
  void remove_entry(const std::string& file, FileIdentity seen) const noexcept;
  // Room for bytes more; data that nobody uses make room. False: there is none.
  [[nodiscard]] bool reserve(std::uint64_t bytes) const;
  [[nodiscard]] bool may_read() const noexcept;
  // The directory fails: said, and nothing is written for a while, or read.
  void fails(const char* what, int error) const;
  void fails_to_read(int error) const;

  std::string dir_;
  std::string data_;
  CacheFiles files_;
  mutable CacheUse use_;
  mutable std::mutex mutex_;  // of what follows, and of the count in this process
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

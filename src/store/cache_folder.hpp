#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_io.hpp"

// What lies in the directory of a cache, and who uses it. A use is a lock of flock(), which goes with its process
// however that ends. Paths are DIR's, as the user gave it. Any thread.
namespace forebay::store {

enum class Lock : std::uint8_t { shared, sole };
// Without waiting.
[[nodiscard]] bool try_lock(const FileDescriptor& file, Lock lock) noexcept;
// Waits as long as `limit_s`.
[[nodiscard]] bool lock_within(const FileDescriptor& file, Lock lock, double limit_s) noexcept;

// DIR/NAME, made if it is not there; none where the system refuses it, with errno.
[[nodiscard]] FileDescriptor open_in(int folder, const std::string& name) noexcept;

// Of the process that uses the cache, until it leaves. Whoever comes to a cache that nobody uses, and that was
// not left in order, counts what is there.
class CacheUse {
 public:
  // Makes the directory, not those above it. Throws Error.
  explicit CacheUse(const std::string& dir);
  ~CacheUse() { leave(); }
  CacheUse(const CacheUse&) = delete;
  CacheUse& operator=(const CacheUse&) = delete;

  // May be called again. What reads on after it is still right, but counts for nobody.
  void leave() noexcept;
  [[nodiscard]] int folder() const noexcept { return folder_.get(); }
  // Bytes on the disk; 0 if that is not known.
  [[nodiscard]] std::uint64_t held() const noexcept;
  // Counts `more` bytes, unless that would be more than `limit`. False also where others do not let go of the count.
  [[nodiscard]] bool add(std::uint64_t more, std::uint64_t limit) const noexcept;
  void subtract(std::uint64_t less) const noexcept;

 private:
  FileDescriptor folder_;
  FileDescriptor lock_;
};

// The data of one dataset.path in a cache.
struct DataFolder {
  std::string path;
  std::string data;
  std::int64_t used_s = 0;  // when it was used last
  FileDescriptor about;     // to be locked
};
// Its name in DIR.
[[nodiscard]] std::string data_folder_name(const std::string& data);
// Opens DIR/NAME/about, made with its folder if they are not there, and notes that the data are used, for as long as
// it is open. None where the system refuses that.
[[nodiscard]] FileDescriptor use_data_folder(int folder, const std::string& data);
// Those that caches made, and nothing else that may lie there.
[[nodiscard]] std::vector<DataFolder> data_folders(const std::string& dir);
// Removes one that nobody uses; returns the bytes that it took. Nothing if somebody does.
[[nodiscard]] std::optional<std::uint64_t> remove_unused(const DataFolder& data);

// For people: what is in a cache.
struct CachedData {
  std::string data;  // dataset.path
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // on the disk
  std::int64_t used_s = 0;  // when, in seconds since 1970
  bool is_in_use = false;
  // If the blocks are read:
  std::uint64_t blocks = 0;
  std::uint64_t damaged = 0;  // of them, which are then forgotten
};
// Both throw ConfigError if there is no cache.
[[nodiscard]] std::vector<CachedData> look_into_cache(const std::string& dir, bool reads_blocks);
// Removes the data that no process uses. Returns the bytes that they took.
[[nodiscard]] std::uint64_t clear_cache(const std::string& dir);

}  // namespace forebay::store

#pragma once

#include <sys/types.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_io.hpp"

// What lies in the directory of a cache, and who uses it. A use is a lock of flock(), which goes with its process
// however that ends. Paths are DIR's, as the user gave it. Any thread.
namespace forebay::store {

// A file to be locked. Who opened it unlocks it, though a process that it forked has it open, too.
class LockFile {
 public:
  LockFile() = default;
  explicit LockFile(FileDescriptor file) noexcept : file_(std::move(file)) {}
  LockFile(LockFile&&) noexcept = default;
  LockFile& operator=(LockFile&&) noexcept = default;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  ~LockFile() { reset(); }

  [[nodiscard]] const FileDescriptor& file() const noexcept { return file_; }
  [[nodiscard]] int get() const noexcept { return file_.get(); }
  [[nodiscard]] bool is_open() const noexcept { return file_.is_open(); }
  [[nodiscard]] bool is_own() const noexcept { return is_open() && owner_ == ::getpid(); }
  void reset() noexcept;

 private:
  FileDescriptor file_;
  pid_t owner_ = ::getpid();
};

enum class Lock : std::uint8_t { shared, sole };
// Without waiting.
[[nodiscard]] bool try_lock(const LockFile& file, Lock lock) noexcept;
// Whether somebody has locked it.
[[nodiscard]] bool is_in_use(const LockFile& about) noexcept;
// Waits as long as `limit_s`.
[[nodiscard]] bool lock_within(const LockFile& file, Lock lock, double limit_s) noexcept;

// DIR/NAME, made if it is not there; none where the system refuses it, with errno.
[[nodiscard]] LockFile open_in(int folder, const std::string& name) noexcept;
// A folder of this user's, that is no link; none with errno.
[[nodiscard]] FileDescriptor open_folder(int folder, const std::string& name) noexcept;

enum class Room : std::uint8_t { had, full, unknown };

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
  // Counts `more` bytes, unless that would be more than `limit`. Unknown where the count cannot be had.
  [[nodiscard]] Room add(std::uint64_t more, std::uint64_t limit) const noexcept;
  void subtract(std::uint64_t less) const noexcept;

 private:
  void count(const std::string& dir) const;

  FileDescriptor folder_;
  LockFile lock_;
};

// The data of one dataset.path in a cache.
struct DataFolder {
  std::string path;
  std::string data;
  std::int64_t used_s = 0;  // when it was used last
  LockFile about;
};
// Its name in DIR.
[[nodiscard]] std::string data_folder_name(const std::string& data);
// Opens DIR/NAME/about, made with its folder if they are not there, and notes that the data are used, for as long as
// it is open. None where the system refuses that.
[[nodiscard]] LockFile use_data_folder(int folder, const std::string& data);
// Those that caches made, and nothing else that may lie there.
[[nodiscard]] std::vector<DataFolder> data_folders(const std::string& dir);
// What one takes that nobody uses; 0 if somebody does.
[[nodiscard]] std::uint64_t unused_bytes(const DataFolder& data);
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

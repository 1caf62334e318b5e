#pragma once

#include <sys/types.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_io.hpp"

// The content of a cache directory, and which processes use it. A process in use of it holds an flock(), which ends
// with the process, however that ends. Paths begin with DIR, as the user gave it. Any thread.
namespace forebay::store {

// A file to be locked. The process that opened it unlocks it, even if a process forked from it has it open, too.
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
// Does not wait.
[[nodiscard]] bool try_lock(const LockFile& file, Lock lock) noexcept;
// Whether any process has locked it.
[[nodiscard]] bool is_in_use(const LockFile& about) noexcept;
// Waits for at most `limit_s`.
[[nodiscard]] bool lock_within(const LockFile& file, Lock lock, double limit_s) noexcept;

// Opens DIR/NAME, creating it if necessary; an empty LockFile, with errno, if the system refuses.
[[nodiscard]] LockFile open_in(int folder, const std::string& name) noexcept;
// Opens a folder that belongs to this user and is not a link; empty, with errno, on failure.
[[nodiscard]] FileDescriptor open_folder(int folder, const std::string& name) noexcept;

enum class Room : std::uint8_t { had, full, unknown };

// A process's use of the cache, until it leaves. A process that finds the cache unused, and not left in order, counts
// its content.
class CacheUse {
 public:
  // Creates the directory, but not its parents. Throws Error.
  explicit CacheUse(const std::string& dir);
  ~CacheUse() { leave(); }
  CacheUse(const CacheUse&) = delete;
  CacheUse& operator=(const CacheUse&) = delete;

  // May be called again. Reads after that are still correct, but no longer count as use.
  void leave() noexcept;
  [[nodiscard]] int folder() const noexcept { return folder_.get(); }
  // Bytes on the disk; 0 if unknown.
  [[nodiscard]] std::uint64_t held() const noexcept;
  // Adds `more` bytes to the count, unless it would exceed `limit`. Unknown if the count is unavailable.
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
  std::int64_t used_s = 0;  // when it was last used
  LockFile about;
};
// Its name in DIR.
[[nodiscard]] std::string data_folder_name(const std::string& data);
// Opens DIR/NAME/about, creating it and its folder if necessary, and marks the data as in use for as long as it is
// open. Empty if the system refuses.
[[nodiscard]] LockFile use_data_folder(int folder, const std::string& data);
// The data folders made by caches, and nothing else that may be there.
[[nodiscard]] std::vector<DataFolder> data_folders(const std::string& dir);
// The bytes of data that no process uses; 0 if one does.
[[nodiscard]] std::uint64_t unused_bytes(const DataFolder& data);
// Removes data that no process uses and returns the bytes that they took; nothing if one does.
[[nodiscard]] std::optional<std::uint64_t> remove_unused(const DataFolder& data);

// The content of a cache, for display.
struct CachedData {
  std::string data;  // dataset.path
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // on the disk
  std::int64_t used_s = 0;  // when, in seconds since 1970
  bool is_in_use = false;
  // If the blocks are read:
  std::uint64_t blocks = 0;
  std::uint64_t damaged = 0;        // of them, which are then forgotten
  std::uint64_t damaged_files = 0;  // with a damaged head, which are then removed
};
// Both throw ConfigError if there is no cache.
[[nodiscard]] std::vector<CachedData> look_into_cache(const std::string& dir, bool reads_blocks);
// Removes the data that no process uses. Returns the bytes that they took.
[[nodiscard]] std::uint64_t clear_cache(const std::string& dir);

}  // namespace forebay::store

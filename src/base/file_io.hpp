#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

// Files. Whatever a name refers to, opening it never blocks, and reading it never takes more memory than stated. Errors
// do not name the file, because the caller knows the name that the user recognises.
namespace forebay {

// File errors that callers handle differently from others.

// A file was shorter than its reported size, perhaps because it is being written. It is read a few more times within
// moments and is then considered bad.
class TruncatedFile final : public SampleError {
 public:
  explicit TruncatedFile(const SampleError& error) : SampleError(error) {}
};

[[nodiscard]] inline bool is_truncated(const SampleError& error) noexcept {
  return dynamic_cast<const TruncatedFile*>(&error) != nullptr;
}

// The process or the machine has run out of file descriptors.
class NoDescriptor final : public SampleError {
 public:
  explicit NoDescriptor(const SampleError& error) : SampleError(error) {}
};

// Owns an open file descriptor; below 0 it owns none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  void reset() noexcept {
    if (is_open()) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_ = -1;
};

// Identifies a file, under any of its names, while it is open.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
// {} if the system does not report it.
[[nodiscard]] FileIdentity identity_of(const FileDescriptor& file) noexcept;

// Repeats a system call for as long as signals interrupt it. `call` returns a negative value and sets errno if it
// fails.
template <typename Call>
auto retry_interrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Describes a file that is not regular: "is a directory", "is a FIFO"; empty for a regular file. `mode` as in stat.
[[nodiscard]] std::string describe_special(mode_t mode);

// The lines of a regular file. One thread at a time.
class LineFile {
 public:
  // Throws Error with the reason: missing, not readable, not a regular file.
  LineFile(const std::filesystem::path& file, std::size_t longest);
  // Takes an open regular file and reads from its current offset.
  LineFile(FileDescriptor file, std::size_t longest);

  // The next line, without its newline; false at the end of the file, and after a line that is_cut(), even if something
  // has been appended since. Throws Error with the reason: a line longer than `longest` bytes, a failed read.
  bool next(std::string& line);
  // The number of the last line that next() returned, from 1.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  // Whether the last line had no newline: its writer was killed or is still writing.
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
  [[nodiscard]] FileIdentity identity() const noexcept { return identity_of(descriptor_); }

 private:
  bool fill();

  FileDescriptor descriptor_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // where the unread part of the buffer begins
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
  bool is_cut_ = false;
};

// The whole text of a file, or of a pipe (`<(...)`, /dev/stdin). Throws Error with the reason: missing, not readable, a
// directory, a socket, a terminal, a block device; a FIFO without a writer; a pipe that delivered nothing for
// `patience_s`; more than `limit` bytes.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& file, std::size_t limit, int patience_s = 60);

// The nesting depth of lists and objects in a JSON text. Some JSON code recurses once per level, so readers check this
// first.
[[nodiscard]] std::size_t json_depth(std::string_view json) noexcept;

// A file without a descriptor: an object in a store (src/store), which counts what it reads. Any thread may call.
class RemoteFile {
 public:
  virtual ~RemoteFile() = default;
  // Fills the pieces in order with the bytes from `offset` on, by one request. Throws SampleError, or ConfigError for
  // what only the user can change.
  virtual void read(std::size_t offset, std::span<const std::span<std::byte>> pieces) const = 0;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  // A hash of the store's name for this version of the object; 0 if it has none.
  [[nodiscard]] virtual std::uint64_t identity() const noexcept = 0;
};

// A regular file, open for reading, and its size.
struct OpenFile {
  FileDescriptor descriptor;
  std::size_t size = 0;
  // If not 0, reads bypass the page cache and must cover whole blocks of this size, in memory aligned to it, as those
  // of DirectReads do; read_at() fails.
  std::size_t block = 0;
  std::shared_ptr<const RemoteFile> remote = nullptr;  // set instead of the descriptor

  [[nodiscard]] FileIdentity identity() const noexcept { return identity_of(descriptor); }
};

// The largest permitted sample or annotation file; a larger one is refused before memory is allocated for it.
inline constexpr std::size_t kLargestSampleFile = std::size_t{1} << 30U;
inline constexpr std::size_t kLargestAnnotationFile = std::size_t{16} << 20U;

// Any thread may call the functions below.

// The error for a failed system call, transient if the call may succeed later: "cannot open: Input/output error".
[[nodiscard]] SampleError system_failure(std::string_view what, int error);

// Why the path is not a sample: "is a FIFO"; "" if it is a regular file. Throws SampleError if the store fails for too
// long.
[[nodiscard]] std::string problem_of_file(const std::string& path);

// Whether the path is on a file system of this machine's disks or memory, where a second read of the same data waits
// for the same device and the same pages. False if that cannot be determined.
[[nodiscard]] bool is_on_local_disk(const std::string& path) noexcept;

// The error for reading up to byte `expected` of a file that ended at byte `at`. Transient: its size promised more, so
// it is being written or the store is confused.
[[nodiscard]] SampleError ended_early(std::size_t at, std::size_t expected);

// Opens a regular file. Never blocks, whatever the path is (a FIFO without a writer would). Throws SampleError.
[[nodiscard]] OpenFile open_regular(const std::string& path);

// Fills `bytes` from the file at `offset`. Throws SampleError if the file ends earlier (transient: its size promised
// more, so it is being written or the store is confused).
void read_at(const FileDescriptor& file, std::size_t offset, std::span<std::byte> bytes);

inline constexpr std::size_t kMostPieces = 1024;
// The same for several pieces of memory, filled in order by one request. REQUIRES: at most kMostPieces pieces.
void read_at(const FileDescriptor& file, std::size_t offset, std::span<const std::span<std::byte>> pieces);

// The same for any open file, local or remote.
inline void read_at(const OpenFile& file, std::size_t offset, std::span<const std::span<std::byte>> pieces) {
  file.remote == nullptr ? read_at(file.descriptor, offset, pieces) : file.remote->read(offset, pieces);
}
inline void read_at(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes) {
  file.remote == nullptr ? read_at(file.descriptor, offset, bytes) : file.remote->read(offset, std::array{bytes});
}

// Opens a file that is a whole sample. Throws SampleError, also if it is larger than kLargestSampleFile, or empty and
// may not be.
[[nodiscard]] OpenFile open_sample_file(const std::string& path, bool may_be_empty);

// The content of a file. Waits for a store that fails (retry.hpp). Throws SampleError, also if the file is larger than
// `limit`.
[[nodiscard]] std::vector<std::byte> load_file(const std::string& path, std::size_t limit);
// The same for an open file, without waiting.
[[nodiscard]] std::vector<std::byte> load_file(const OpenFile& file, std::size_t limit);
// The non-empty lines of a text, without surrounding blanks or a byte order mark.
[[nodiscard]] std::vector<std::string> lines_of(std::span<const std::byte> text);

// The folder that the file is in; "." for a bare name.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace forebay

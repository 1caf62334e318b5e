#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.hpp"

namespace forebay::store {

using Spans = std::vector<std::span<std::byte>>;

// What an entry of the cache is of: one version of one object.
struct KeptObject {
  std::string name;     // URL or path
  std::string version;  // as its store names it; "" where the identity is from an index, or of a file
  std::uint64_t identity = 0;
  std::uint64_t bytes = 0;
};

// A file of the cache: a head, a checksum for each block of the object, and the blocks, each at its place, of which it
// has some. Several processes may read and write one: a block counts only if its checksum is that of its bytes, its
// place and the object's version, so that what a crash, another writer or a bad disk leaves is no block. Any thread.
class CacheEntry {
 public:
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::uint64_t kLargeHead = std::uint64_t{1} << 20U;  // which only one thread should write
  [[nodiscard]] static constexpr std::uint64_t whole_blocks(std::uint64_t bytes) noexcept {
    return (bytes + kBlock - 1) / kBlock * kBlock;
  }

  // Why there is none: not always because there is no file, as where the process may open no more.
  struct Missing {
    bool may_be_made = false;  // there is no such file, or it is no entry
    FileIdentity other;        // then: what is to be removed before
  };
  [[nodiscard]] static std::optional<CacheEntry> open(int folder, const std::string& file, Missing* missing = nullptr);
  // A new file without blocks. Throws std::system_error.
  [[nodiscard]] static CacheEntry make(int folder, const std::string& file, KeptObject object);
  // What it takes on the disk, without its blocks; 0 for an object that it cannot hold, whose name is too long.
  [[nodiscard]] static std::uint64_t overhead(const KeptObject& object) noexcept;

  [[nodiscard]] const KeptObject& object() const noexcept { return object_; }
  [[nodiscard]] std::uint64_t blocks() const noexcept { return (object_.bytes + kBlock - 1) / kBlock; }
  // When it was last compared with its store, or written, as set_checked() notes.
  [[nodiscard]] std::int64_t checked_ns() const noexcept;
  void set_checked(std::int64_t ns) const noexcept;

  // The checksums of the blocks from `first` on; 0: it is not there. None of them is where they cannot be read.
  [[nodiscard]] std::vector<std::uint64_t> sums(std::uint64_t first, std::size_t count) const;
  // Reads blocks from `first` on into memory for all of their bytes, and says which are good: those with these sums.
  // Returns 0, also for a file that was cut, or the system's error.
  [[nodiscard]] int read(std::uint64_t first, const Spans& to, std::span<const std::uint64_t> sums,
                         std::vector<bool>& is_good) const;
  // The other way round. Returns 0 or the system's error.
  [[nodiscard]] int write(std::uint64_t first, const Spans& from) const;
  // Forgets a block. False if its place on the disk stays taken.
  [[nodiscard]] bool forget(std::uint64_t block) const noexcept;
  [[nodiscard]] FileIdentity file() const noexcept { return identity_of(file_); }

 private:
  CacheEntry(FileDescriptor file, KeptObject object) : file_(std::move(file)), object_(std::move(object)) {}

  [[nodiscard]] std::uint64_t place_of(std::uint64_t block) const noexcept;
  // Of the bytes of one block, which lie in pieces.
  [[nodiscard]] std::uint64_t sum_of(std::uint64_t block, const Spans& bytes) const noexcept;

  FileDescriptor file_;
  KeptObject object_;
};

// Of this user, and nobody else may write there.
[[nodiscard]] bool is_private(int file) noexcept;

// The bytes [begin, end) of memory that lies in pieces.
[[nodiscard]] Spans cut(const Spans& pieces, std::size_t begin, std::size_t end);

}  // namespace forebay::store

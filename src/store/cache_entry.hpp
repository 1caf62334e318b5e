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

// The subject of a cache entry: one version of one object.
struct KeptObject {
  std::string name;     // URL or path
  std::string version;  // the store's name for it; "" if the identity is from an index or of a file
  std::uint64_t identity = 0;
  std::uint64_t bytes = 0;
};

// A file of the cache: a head, a checksum for each block of the object, and some of the blocks, each at its place.
// Several processes may read and write it: a block counts only if its checksum matches its bytes, its place and the
// object's version, so nothing left by a crash, another writer or a bad disk is taken for a block. Any thread.
class CacheEntry {
 public:
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::uint64_t kLargeHead = std::uint64_t{1} << 20U;  // one thread should write larger
  [[nodiscard]] static constexpr std::uint64_t whole_blocks(std::uint64_t bytes) noexcept {
    return (bytes + kBlock - 1) / kBlock * kBlock;
  }

  // Why there is no entry; not always because there is no file, for example if the process may open no more.
  struct Missing {
    bool may_be_made = false;  // there is no such file, or it is not an entry
    FileIdentity other;        // in that case: the file to be removed first
  };
  [[nodiscard]] static std::optional<CacheEntry> open(int folder, const std::string& file, Missing* missing = nullptr);
  // Creates a file without blocks. Throws std::system_error.
  [[nodiscard]] static CacheEntry make(int folder, const std::string& file, KeptObject object);
  // The disk space of an entry without its blocks; 0 for an object that it cannot hold because its name is too long.
  [[nodiscard]] static std::uint64_t overhead(const KeptObject& object) noexcept;

  [[nodiscard]] const KeptObject& object() const noexcept { return object_; }
  [[nodiscard]] std::uint64_t blocks() const noexcept { return (object_.bytes + kBlock - 1) / kBlock; }
  // When it was last compared with its store or written, as recorded by set_checked().
  [[nodiscard]] std::int64_t checked_ns() const noexcept;
  void set_checked(std::int64_t ns) const noexcept;

  // The checksums of `count` blocks from `first` on; 0: missing. All are 0 if they cannot be read.
  [[nodiscard]] std::vector<std::uint64_t> sums(std::uint64_t first, std::size_t count) const;
  // Reads blocks from `first` on into memory for all of their bytes, and reports which are good: those that match these
  // sums. Returns 0, also for a truncated file, or the system's error.
  [[nodiscard]] int read(std::uint64_t first, const Spans& to, std::span<const std::uint64_t> sums,
                         std::vector<bool>& is_good) const;
  // Writes blocks from `first` on. Returns 0 or the system's error.
  [[nodiscard]] int write(std::uint64_t first, const Spans& from) const;
  // Discards a block. False if its space on the disk was not freed.
  [[nodiscard]] bool forget(std::uint64_t block) const noexcept;
  [[nodiscard]] FileIdentity file() const noexcept { return identity_of(file_); }

 private:
  CacheEntry(FileDescriptor file, KeptObject object) : file_(std::move(file)), object_(std::move(object)) {}

  [[nodiscard]] std::uint64_t place_of(std::uint64_t block) const noexcept;
  // The checksum of one block, given as pieces of memory.
  [[nodiscard]] std::uint64_t sum_of(std::uint64_t block, const Spans& bytes) const noexcept;

  FileDescriptor file_;
  KeptObject object_;
};

// Whether the file belongs to this user and nobody else may write to it.
[[nodiscard]] bool is_private(int file) noexcept;

// The bytes [begin, end) of memory given in pieces.
[[nodiscard]] Spans cut(const Spans& pieces, std::size_t begin, std::size_t end);

}  // namespace forebay::store

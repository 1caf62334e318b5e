#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/output_file.hpp"
#include "scan_points.hpp"

// A file with the entry points (scan_points.hpp) of many JPEG files. They are looked up by the
// files' bytes: names and paths do not matter, and a file that has changed has no points.
//
// The file has a header; counts, which say for each value of a key's first bits how many entries
// precede; the entries, sorted by key; and the records that they point to. Numbers are
// little-endian.
namespace forebay::jpeg {

// The path of the decode index that belongs to a saved index.
[[nodiscard]] std::string decode_index_of(const std::string& index);

// The key of a JPEG file. Files with different bytes have different keys, up to collisions of 64 bits.
struct JpegKey {
  std::uint64_t hash = 0;
  std::uint64_t size = 0;

  friend auto operator<=>(const JpegKey&, const JpegKey&) = default;
};
[[nodiscard]] JpegKey key_of(std::span<const std::byte> jpeg) noexcept;

// An open decode index. Little of it is kept in memory. Records are checked whenever they are read:
// in a damaged file points are merely not found, and a malicious file causes wrong pixels at worst.
// Any thread may call.
class DecodeIndex {
 public:
  using Warning = std::function<void(const std::string& text)>;

  // Throws SampleError, naming the file, if it cannot be read, and Error if it is not a decode
  // index, has another version, or a damaged header. `warn` is called on the thread that first
  // finds that the file can no longer be read; it must not throw.
  explicit DecodeIndex(const std::string& file, Warning warn = {});

  // Starts a thread that reads the file, so that find() reads from the page cache, as far as memory
  // allows. Called once, before find().
  void read_ahead();

  // The points of a JPEG file with this frame, stored in `memory`; none if the file is not in the
  // index. Once a read has failed, retries included, find() always returns none.
  [[nodiscard]] ScanPoints find(std::span<const std::byte> jpeg, const JpegFrame& frame,
                                std::vector<std::byte>& memory) const;

  [[nodiscard]] std::uint64_t files() const noexcept { return files_; }

 private:
  [[nodiscard]] ScanPoints search(const JpegKey& key, const JpegFrame& frame, std::vector<std::byte>& memory) const;
  void read(std::uint64_t at, std::span<std::byte> to) const;

  std::string name_;
  Warning warn_;
  OpenFile file_;
  std::uint64_t files_ = 0;
  std::vector<std::uint64_t> before_;        // for each value of a key's first bits
  mutable std::atomic<bool> is_off_{false};  // a read has failed
  std::jthread ahead_;                       // last member: the thread uses the file
};

// Collects points and writes them. Belongs to one thread.
class DecodeIndexWriter {
 public:
  // Adds the points of a file. Of files with the same key the first is kept.
  void add(const JpegKey& key, std::vector<std::byte> points);

  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  // Replaces the file atomically. Throws Error, which does not name the file.
  void save(const std::string& file);

 private:
  struct File {
    JpegKey key;
    std::vector<std::byte> points;
  };
  void write_records(const PieceWriter& write) const;

  std::vector<File> files_;
};

}  // namespace forebay::jpeg

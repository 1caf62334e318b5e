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

// A file with the entry points (scan_points.hpp) of many JPEG files, looked up by their bytes: names and paths do not
// matter, and a file that has changed has no points.
//
// The file: header; by the first bits of a key, how many entries come before; the entries, sorted by key; the records
// that they lead to. Numbers are little endian.
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

// An open decode index. Little of it is kept in memory; a record is checked whenever it is read, so in a damaged file
// points are merely not found, and a malicious one causes wrong pixels at worst. Any thread may call.
class DecodeIndex {
 public:
  using Warning = std::function<void(const std::string& text)>;

  // Throws SampleError naming the file if it cannot be read, and Error if it is not a decode index, is of another
  // version, or has a damaged header. `warn` is called on the thread that first finds that the file can no longer be
  // read; it must not throw.
  explicit DecodeIndex(const std::string& file, Warning warn = {});

  // Starts reading the file on a thread of its own, so that reads by find() come from the page cache, as far as memory
  // has room. Once, before find() is called.
  void read_ahead();

  // The points of a JPEG file with this frame, in `memory`; none if it is not in the index. Once a read has failed, and
  // failed again when repeated, it finds no more.
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
  std::vector<std::uint64_t> before_;  // by the first bits of a key: entries of smaller ones; one more than there are
  mutable std::atomic<bool> is_off_{false};  // a read has failed
  std::jthread ahead_;                       // last: it uses the file
};

// Collects points, and writes them. One thread.
class DecodeIndexWriter {
 public:
  // Adds the points of a file. Among files with the same key the first one is kept.
  void add(const JpegKey& key, std::vector<std::byte> points);

  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  // Replaces the file atomically. Throws Error, without the file's name.
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

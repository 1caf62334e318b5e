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

// A file of the points (scan_points.hpp) of many JPEG files, found by the bytes of those: whatever a file is called and
// wherever it lies, one that has changed has no points.
//
// The file: header; by the first bits of a key, how many entries come before; the entries, sorted by key; the records
// that they lead to. Numbers are little endian.
namespace forebay::jpeg {

// Where the decode index that belongs to a saved index lies.
[[nodiscard]] std::string decode_index_of(const std::string& index);

// What a JPEG file is found by. A file of other bytes has another key, as far as 64 bits can tell.
struct JpegKey {
  std::uint64_t hash = 0;
  std::uint64_t size = 0;

  friend auto operator<=>(const JpegKey&, const JpegKey&) = default;
};
[[nodiscard]] JpegKey key_of(std::span<const std::byte> jpeg) noexcept;

// An open decode index. Little of it is kept in memory; a record is checked whenever it is read, so damage to the file
// ends in points that are not found, and a hostile one in wrong pixels at worst. Any thread may call.
class DecodeIndex {
 public:
  using Warning = std::function<void(const std::string& text)>;

  // Throws SampleError naming the file if it cannot be read, and Error if it is no decode index, is one of another
  // version, or its header is damaged. `warn` is called by whichever thread first finds, later, that the file cannot be
  // read any more; it must not throw.
  explicit DecodeIndex(const std::string& file, Warning warn = {});

  // Begins to read the file on a thread of its own, so that find() has little to wait for: its reads then come from the
  // page cache, as far as memory has room. Once, before find() is called.
  void read_ahead();

  // The points of a JPEG file with this frame, in `memory`; none if they are not here. After the first read that fails,
  // and again when repeated, there are none any more.
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
  // The points of one more file. Of files with the same key the first one stays.
  void add(const JpegKey& key, std::vector<std::byte> points);

  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  // Replaces the file at once, or not at all. Throws Error, without the file's name.
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

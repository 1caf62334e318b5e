#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index_image.hpp"

namespace forebay {

// Many strings, one after the other in one allocation. They may hold any bytes.
class StringTable {
 public:
  void reserve(std::size_t count, std::size_t bytes);
  void add(std::string_view text);
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  // REQUIRES: i < size().
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept;

  // Where each ends among the bytes, and the bytes.
  [[nodiscard]] const std::vector<std::uint64_t>& ends() const noexcept { return ends_; }
  [[nodiscard]] const std::vector<char>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::uint64_t> ends_;
  std::vector<char> bytes_;
};

// Samples that live in files of their own: whole files, or objects' boxes in them. What an index is built in.
struct FileTable {
  // A sample that is a region of its file.
  struct Region {
    Box box;
    std::uint32_t object = 0;  // number of the <object> in its annotation, from 1
    std::uint32_t flags = 0;   // kDifficult | kTruncated
  };
  static constexpr std::uint32_t kDifficult = 1;
  static constexpr std::uint32_t kTruncated = 2;

  std::vector<std::string> classes;
  StringTable files;
  // Columns, one entry per sample.
  std::vector<std::uint32_t> file;  // into `files`
  std::vector<std::int32_t> label;  // into `classes`, or -1
  std::vector<Region> region;       // empty when samples are whole files

  // Adds a file and returns its number. Throws Error at the 2^32nd.
  std::uint32_t add_file(std::string_view path);
};

// A dataset over a file table; voc, filelist and folder differ only in how the table is filled. A sample of a folder
// tree takes 12 bytes of it beside its path.
[[nodiscard]] std::unique_ptr<Dataset> make_file_dataset(const IndexRecord& record, FileTable table);
// The dataset of such an index. Throws Error when the content is not one that make_file_dataset() makes, as far as that
// shows without reading the columns; entries are checked when they are used.
[[nodiscard]] std::unique_ptr<Dataset> restore_file_dataset(std::shared_ptr<const IndexImage> image);

// Files of such a dataset that are not there or are no files.
struct MissingFiles {
  std::vector<Skipped> files;  // in order
  std::uint64_t samples = 0;   // that are in them
};
// Nothing for another dataset. Asks the file system about each file, with several threads.
[[nodiscard]] MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress);

}  // namespace forebay

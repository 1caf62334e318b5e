#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "file_descriptor.hpp"

// Text files that somebody names, read within bounds: whatever stands under the name, opening it never waits and
// reading it never takes more memory than is said. Errors do not name the file: the caller knows it by a name that
// people recognise.
namespace forebay {

// What a file that is not regular is: "is a directory", "is a FIFO"; empty for a regular file. `mode` as in stat.
[[nodiscard]] std::string describe_special(mode_t mode);

// The lines of a regular file. One thread at a time.
class LineFile {
 public:
  // Throws Error with the reason: not there, not readable, no regular file.
  LineFile(const std::filesystem::path& file, std::size_t longest);

  // The next line, without its end; false at the end of the file. Throws Error with the reason: a line longer than
  // `longest` bytes, a read that fails.
  bool next(std::string& line);
  // Lines that next() gave; the number of the last one.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  // The last line had no end: whoever wrote it was killed, or is still writing.
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }

 private:
  bool fill();

  FileDescriptor descriptor_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what is left in the buffer
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
  bool is_cut_ = false;
};

// The whole text of a file, or of a pipe that somebody writes to (`<(...)`, /dev/stdin). Throws Error with the reason:
// not there, not readable, a directory, a socket, a terminal, a block device; a FIFO that nobody writes to; a pipe from
// which nothing came for `patience_s`; more than `limit` bytes.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& file, std::size_t limit, int patience_s = 60);

// How deep lists and objects of a JSON text lie in each other; strings are passed over. Some code that handles JSON
// calls itself for each level, so a reader looks at this first.
[[nodiscard]] std::size_t json_depth(std::string_view json) noexcept;

}  // namespace forebay

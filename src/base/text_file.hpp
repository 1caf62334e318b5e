#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "file_descriptor.hpp"

// Text files that a user names, read within bounds: whatever the name leads to, opening it never blocks and reading it
// never takes more memory than stated. Errors do not name the file: the caller knows the name that people recognise.
namespace forebay {

// What a file that is not regular is: "is a directory", "is a FIFO"; empty for a regular file. `mode` as in stat.
[[nodiscard]] std::string describe_special(mode_t mode);

// The lines of a regular file. One thread at a time.
class LineFile {
 public:
  // Throws Error with the reason: missing, not readable, not a regular file.
  LineFile(const std::filesystem::path& file, std::size_t longest);

  // The next line, without its newline; false at the end of the file. Throws Error with the reason: a line longer than
  // `longest` bytes, a failed read.
  bool next(std::string& line);
  // The number of the last line that next() returned, from 1.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  // The last line had no newline: its writer was killed, or is still writing.
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

// The whole text of a file, or of a pipe (`<(...)`, /dev/stdin). Throws Error with the reason: missing, not readable, a
// directory, a socket, a terminal, a block device; a FIFO without a writer; a pipe that gave nothing for `patience_s`;
// more than `limit` bytes.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& file, std::size_t limit, int patience_s = 60);

// How deeply lists and objects of a JSON text are nested; strings are skipped. Some JSON code recurses once per level,
// so a reader checks this first.
[[nodiscard]] std::size_t json_depth(std::string_view json) noexcept;

}  // namespace forebay

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"

namespace forebay::report {

// The lines of a file of telemetry, or, of one larger than a budget, those of stretches spread evenly over it. Its
// errors name the file. One thread.
class LineSource {
 public:
  // Throws Error.
  LineSource(std::filesystem::path file, std::uint64_t budget);

  // The next line, valid until the next call; false at the end. Throws Error.
  bool next(std::string_view& line);

  // How many stretches are read of the file; 0 = all of it.
  [[nodiscard]] std::uint64_t stretches() const noexcept { return stretches_; }
  // The last line has no newline: its writer was killed, or is still writing.
  [[nodiscard]] bool is_cut() const noexcept { return whole_ && whole_->is_cut(); }
  [[nodiscard]] FileIdentity identity() const noexcept { return whole_ ? whole_->identity() : open_.identity(); }
  // Where the last line is: "run/steps.3.jsonl:17", or by the byte that it begins with.
  [[nodiscard]] std::string place() const;

 private:
  bool next_stretch();

  std::filesystem::path file_;
  std::optional<LineFile> whole_;
  std::string line_;

  OpenFile open_;
  std::uint64_t stretches_ = 0;
  std::uint64_t stretch_ = 0;  // the next one
  std::uint64_t begin_ = 0;    // of the one in text_, in the file
  std::vector<char> text_;
  std::size_t at_ = 0;
  std::size_t line_at_ = 0;
};

}  // namespace forebay::report

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "run_data.hpp"

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

// The files of one rank; an empty path is one that is not there. Of steps and intervals there may be the earlier file
// only, or both.
struct RankFiles {
  std::uint32_t rank = 0;
  std::filesystem::path run;
  std::filesystem::path steps;
  std::filesystem::path intervals;
};

enum class RecordKind : std::uint8_t { steps, intervals };

// Reads what one rank wrote; at most `budget` bytes of the files of `kind`, the earlier one first. Throws Error naming
// file and line.
[[nodiscard]] RankData read_rank(const RankFiles& files, RecordKind kind, std::uint64_t budget);

}  // namespace forebay::report

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

// The lines of a telemetry file or, if it is larger than a budget, of stretches spread evenly over
// it. Errors name the file. Used by one thread.
class LineSource {
 public:
  // Throws Error.
  LineSource(std::filesystem::path file, std::uint64_t budget);

  // The next line, valid until the next call; false at the end. Throws Error.
  bool next(std::string_view& line);

  // How many stretches of the file are read; 0: the whole file.
  [[nodiscard]] std::uint64_t stretches() const noexcept { return stretches_; }
  // Whether the last line has no newline: its writer was killed, or is still writing.
  [[nodiscard]] bool is_cut() const noexcept { return whole_ && whole_->is_cut(); }
  [[nodiscard]] FileIdentity identity() const noexcept { return whole_ ? whole_->identity() : open_.identity(); }
  // Where the last line is: "run/steps.3.jsonl:17", or the position of its first byte.
  [[nodiscard]] std::string place() const;

 private:
  bool next_stretch();

  std::filesystem::path file_;
  std::optional<LineFile> whole_;
  std::string line_;

  OpenFile open_;
  std::uint64_t stretches_ = 0;
  std::uint64_t stretch_ = 0;  // number of the next stretch
  std::uint64_t begin_ = 0;    // offset in the file of the stretch in text_
  std::vector<char> text_;
  std::size_t at_ = 0;
  std::size_t line_at_ = 0;
};

// The files of one rank; the path of a missing one is empty. Of steps and intervals, only the
// earlier file may exist, or both.
struct RankFiles {
  std::uint32_t rank = 0;
  std::filesystem::path run;
  std::filesystem::path steps;
  std::filesystem::path intervals;
};

enum class RecordKind : std::uint8_t { steps, intervals };

// Reads one rank's telemetry, at most `budget` bytes from the files of `kind`, the earlier file
// first. Throws Error naming file and line.
[[nodiscard]] RankData read_rank(const RankFiles& files, RecordKind kind, std::uint64_t budget);

}  // namespace forebay::report

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_io.hpp"
#include "console_log.hpp"

namespace forebay::measure {

// "DIR/KIND.RANK.jsonl".
[[nodiscard]] std::filesystem::path rank_file(const std::string& dir, std::string_view kind, std::uint32_t rank);
// "KIND.RANK.earlier.jsonl" beside it: the lines before those of `file` if that is bounded.
[[nodiscard]] std::filesystem::path earlier_file(std::filesystem::path file);

// The parts of the name of such a file; none for any other name. `kind` has static lifetime.
struct RankFileName {
  std::string_view kind;
  std::uint32_t rank = 0;
  bool goes_on = false;     // "KIND.RANK.from-STEP.jsonl": of a run that resumed
  bool is_earlier = false;  // "KIND.RANK.earlier.jsonl"
};
[[nodiscard]] std::optional<RankFileName> rank_file_name(std::string_view name);

// Creates `dir` (telemetry.dir). No effect if it is "". Throws ConfigError, naming telemetry.dir.
void make_run_directory(const std::string& dir);

// Removes what an earlier run left in `dir`, so that "steps.*.jsonl" is always one run: this rank's
// files, and on rank 0 also those of ranks that this job does not have, and those of resumed runs
// (goes_on). Only rank 0 lists the folder, because 100,000 ranks would each read all names. Called
// in a new run, not in one that resumes, before this rank writes anything there.
void clear_run_directory(const std::string& dir, std::uint32_t rank, std::uint32_t ranks);

// The exclusive right to write one rank's files in telemetry.dir, on this machine and, if the file
// system supports locks, on others. It is a locked file ".writer.RANK" in the folder. The system
// releases the lock when its process ends, however it ends.
class DirectoryLock {
 public:
  // Holds no lock, as for telemetry.dir = "".
  DirectoryLock() = default;
  // Waits 2 s for another process that holds the lock, which may be dying. Throws ConfigError,
  // naming telemetry.dir and that process. Takes no lock on a file system without locks, or in a
  // folder that is not writable.
  DirectoryLock(const std::string& dir, std::uint32_t rank);
  ~DirectoryLock() { release(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  DirectoryLock(DirectoryLock&& other) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;

  void release() noexcept;

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

// open_to_append() for lines: ends the last line if a killed process left it unfinished, so that
// appended text begins on a new line.
[[nodiscard]] FileDescriptor append_lines_to(const std::filesystem::path& file);

// A file of JSON lines. A failure to write (no space, I/O error, file removed) never throws: it is
// logged once, and the lines that may be lost are counted. Writing continues, so a disk that
// recovers is used again; the line at which it failed may then be truncated. One thread at a time,
// except lost().
//
// With a bound, the file and earlier_file() together take at most that many bytes. A line that
// would bring the file above half of the bound turns the file into the earlier one and begins a new
// file, so the latest half is always kept. If the process is killed in between, only the earlier
// file exists, and the next process that appends begins the new one. If the file cannot be renamed,
// it grows up to the bound, and further lines are lost.
class JsonLinesFile {
 public:
  enum class Mode : std::uint8_t { truncate, append };

  // Creates the file if there is none. `most_bytes`: the bound, 0: none. Files that are already
  // larger come within it after two renamings. Throws ConfigError, naming telemetry.dir.
  JsonLinesFile(const std::filesystem::path& path, ConsoleLog& console, Mode mode = Mode::truncate,
                std::uint64_t most_bytes = 0);
  ~JsonLinesFile();  // sync()
  JsonLinesFile(const JsonLinesFile&) = delete;
  JsonLinesFile& operator=(const JsonLinesFile&) = delete;

  // Appends `count` lines, each ending with a newline. Buffered until sync().
  void write(std::string_view lines, std::uint64_t count);
  // Passes what was written to the operating system and checks the result.
  void sync();
  // Lines that were written but may not be in the file. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept;
  // Whether the file was renamed to the earlier one since it was opened.
  [[nodiscard]] bool has_rotated() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::measure

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "console_log.hpp"

namespace forebay {

// Ends the last line of a file that is to be added to, where a killed process left it without its end: what is added
// then begins a line of its own. Does nothing when there is no such file, or when it cannot be written.
void end_last_line(const std::filesystem::path& file) noexcept;

// A file of JSON lines. Trouble while writing (no space, I/O error, file removed) never throws: it is told to the
// console once, and the lines it may have cost are counted. Writing continues, so a disk that recovers is used again;
// the line at which it failed may then be cut short. One thread at a time, lost() aside.
class JsonLinesFile {
 public:
  enum class Mode : std::uint8_t { truncate, append };

  // Creates the file where there is none. Throws ConfigError naming telemetry.dir.
  JsonLinesFile(const std::filesystem::path& path, ConsoleLog& console, Mode mode = Mode::truncate);
  ~JsonLinesFile();  // sync()
  JsonLinesFile(const JsonLinesFile&) = delete;
  JsonLinesFile& operator=(const JsonLinesFile&) = delete;

  // Appends `count` lines, each ending with a newline. Buffered until sync().
  void write(std::string_view lines, std::uint64_t count);
  // Hands what was written to the operating system and finds out what became of it.
  void sync();
  // Lines that were written but may not be in the file. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

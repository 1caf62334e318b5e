#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "console_log.hpp"
#include "json_lines_file.hpp"
#include "recording.hpp"

namespace forebay {

// Writes a recording of decisions. It never has a hole: where anything is lost, the recording ends, and the console
// says so. One thread at a time, lost() aside.
class DecisionLog {
 public:
  // Creates or truncates the file and writes its head. Throws ConfigError naming telemetry.dir.
  DecisionLog(const std::filesystem::path& file, const RecordingHeader& header, ConsoleLog& console);
  ~DecisionLog() { sync(); }
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  // The next step's decision.
  void add(bool fresh) noexcept;
  // Writes what was added and hands it to the operating system.
  void sync() noexcept;
  // Ends the recording with the steps that were added so far. Only the first cause is told.
  void end(std::string_view cause) noexcept;
  // Lines that were written but may not be in the file. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept { return file_.lost(); }

 private:
  void write();

  const std::string name_;
  ConsoleLog& console_;
  JsonLinesFile file_;
  bool ended_ = false;
  std::uint64_t written_ = 0;        // steps
  std::uint64_t next_ = 0;           // the step that is added next
  std::vector<std::uint64_t> runs_;  // of steps written_ to next_, as in decisions_line()
};

}  // namespace forebay

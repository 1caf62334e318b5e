#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "console_log.hpp"
#include "run_files.hpp"

// run.RANK.jsonl: one line when the rank begins or resumes, one when it ends. docs/telemetry.md
// describes them.
namespace forebay::measure {

// Full name of a key and its value as TOML, in the order of a written configuration.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct RunHead {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t first_step = 0;  // above 0 if the run resumed from a saved state
  std::string started = {};      // UTC, ISO 8601
  std::string host = {};
  Settings settings = {};  // only on rank 0
};

// The result of a run, written at its end. A simulated run has none.
struct RunEnd {
  std::optional<Summary> summary = {};
  std::optional<Profile> profile = {};
  std::string failure = {};  // the error that ended the run
  bool is_foreign = false;   // of another version, with other figures; both are absent
};

// Each returns one line, newline included.
[[nodiscard]] std::string head_line(const RunHead& head);
[[nodiscard]] std::string end_line(const RunEnd& end);

// Parses a line; `head` is empty for a line that ends a run. Throws Error with the reason, without
// file and line.
struct RunLine {
  std::optional<RunHead> head;
  RunEnd end;
};
[[nodiscard]] RunLine parse_run_line(const std::string& line);

// The current time in UTC, ISO 8601 with milliseconds: "2026-01-31T12:34:56.789Z".
[[nodiscard]] std::string utc_now();
// The name of this machine; "" if unknown.
[[nodiscard]] std::string host_name();

// Writes the two lines. One thread at a time.
class RunLog {
 public:
  // Writes the first line; appends it if the run resumed. Throws ConfigError, naming telemetry.dir.
  RunLog(const std::string& dir, const RunHead& head, ConsoleLog& console);

  // Appends the last line; further calls have no effect.
  void end(const RunEnd& end);

 private:
  JsonLinesFile file_;
  bool ended_ = false;
};

}  // namespace forebay::measure

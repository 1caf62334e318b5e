#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "console_log.hpp"
#include "run_files.hpp"

// Writes and reads the recorded decisions of one rank. docs/telemetry.md describes the format.
namespace forebay::measure {

// Which steps were fresh, or padded, as run lengths: a billion equal steps take a few bytes, in a
// recording and in memory. One thread at a time.
class DecisionRuns {
 public:
  // Adds `steps` steps, all fresh or all reused.
  void append(std::uint64_t steps, bool fresh) {
    size_ += steps;
    while (steps > 0) {
      // Runs alternate between fresh and reused, beginning with fresh.
      const bool is_same = !lengths_.empty() && (lengths_.size() % 2 == 1) == fresh;
      if (!is_same) {
        if (lengths_.size() % 2 == (fresh ? 1U : 0U)) lengths_.push_back(0);
        lengths_.push_back(0);
      }
      const std::uint64_t part = std::min(steps, kLongest - lengths_.back());
      lengths_.back() += static_cast<std::uint32_t>(part);
      steps -= part;
      if (steps > 0) lengths_.push_back(0);
    }
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  friend bool operator==(const DecisionRuns& a, const DecisionRuns& b) { return a.lengths_ == b.lengths_; }

  // Looks up steps; fast while they ascend.
  class Cursor {
   public:
    // REQUIRES: step < runs.size(), and `runs` is the same, unchanged, at every call.
    [[nodiscard]] bool is_set(const DecisionRuns& runs, std::uint64_t step) noexcept {
      if (step < begin_) run_ = begin_ = 0;
      for (; step - begin_ >= runs.lengths_[run_]; ++run_) begin_ += runs.lengths_[run_];
      return run_ % 2 == 0;
    }

   private:
    std::size_t run_ = 0;
    std::uint64_t begin_ = 0;  // first step of the run
  };

 private:
  static constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();

  std::vector<std::uint32_t> lengths_;
  std::uint64_t size_ = 0;
};

// What is recorded of a step: the decision, which a replay repeats, and whether this rank was
// served padding instead. Ranks in lockstep decide alike, even at a step at which some have nothing
// fresh.
struct RecordedStep {
  bool fresh = false;
  bool padded = false;
};

// The first line: what a run must share with the recorded one in order to repeat it.
struct RecordingHeader {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t first_step = 0;  // of the run; above 0 if it resumed from a saved state
  std::string dataset;           // fingerprint, 16 hexadecimal digits
  // The settings that determine the batches and which of them a reuse serves, as TOML, by full name
  // of the key.
  std::map<std::string, std::string> settings;
  // Informational; a replay may differ in these.
  std::string policy;
  std::int64_t capacity = 0;
};

struct Recording {
  RecordingHeader header;
  DecisionRuns fresh;   // by step; a step that is not fresh reuses the batch that the pick chose
  DecisionRuns padded;  // by step; same size
};

// "DIR/decisions.RANK.jsonl", or "DIR/decisions.RANK.from-STEP.jsonl" for a run that resumed at a
// step above 0.
[[nodiscard]] std::filesystem::path recording_file(const std::filesystem::path& dir, std::uint32_t rank,
                                                   std::uint64_t first_step = 0);

// Each returns one line, newline included.
[[nodiscard]] std::string header_line(const RecordingHeader& header);
// `runs`: lengths of runs of steps, alternately fresh and reused, beginning with fresh (0 if the
// first step is a reuse). `padded`: of the same steps, alternately served as decided and padded,
// beginning with as decided; empty if none is padded.
[[nodiscard]] std::string decisions_line(std::uint64_t step, std::span<const std::uint64_t> runs,
                                         std::span<const std::uint64_t> padded = {});

// Reads a recording up to its end, or up to a truncated last line. Throws ConfigError, naming
// policy.recording, the file and the line, if it does not exist, is not a regular file, is not a
// recording, has another version, has no steps, or lacks steps in between. Takes at most a few
// times the memory of the file.
[[nodiscard]] Recording read_recording(const std::filesystem::path& file);

// Writes a recording of decisions without gaps: if anything is lost, the recording ends, and a log
// line says so. One thread at a time, except lost().
class DecisionLog {
 public:
  // Creates or truncates the file and writes its first line. Throws ConfigError, naming
  // telemetry.dir.
  DecisionLog(const std::filesystem::path& file, const RecordingHeader& header, ConsoleLog& console);
  ~DecisionLog() { sync(); }
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  // Adds the next step.
  void add(RecordedStep step) noexcept;
  // Passes everything added so far to the operating system.
  void sync() noexcept;
  // Ends the recording with the steps that were added so far. Only the first cause is reported.
  void end(std::string_view cause) noexcept;
  // Lines that were written but may not be in the file. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept { return file_.lost(); }

 private:
  void write();

  const std::string name_;
  ConsoleLog& console_;
  JsonLinesFile file_;
  bool ended_ = false;
  std::uint64_t written_ = 0;  // steps written
  std::uint64_t next_ = 0;     // number of the next step
  // Runs of the steps from written_ to next_, as in decisions_line().
  std::vector<std::uint64_t> runs_;
  std::vector<std::uint64_t> padded_;
};

}  // namespace forebay::measure

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "time_bins.hpp"

namespace forebay::report {

// What one rank did in the last few seconds of its telemetry.
struct RankNow {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t depth = 0;     // batches ready at the last step
  std::uint32_t capacity = 0;  // the largest value known
  Bin lately = {};             // sums over those seconds
  double lately_s = 0;         // length of that time
  double from_store = 0;       // bytes in the last interval
  double from_cache = 0;
  double silent_s = 0;  // seconds since its telemetry last grew, as seen by this process
  bool has_ended = false;
  bool has_failed = false;  // an error ended it

  [[nodiscard]] double steps_per_s() const noexcept { return lately_s > 0 ? lately.steps / lately_s : 0; }
};

// Watches a run by reading the ends of its telemetry files again and again. The run itself is not
// contacted; it may be on another machine that shares the folder. Used by one thread.
class LiveRun {
 public:
  // Throws Error if the folder does not exist. A folder without files is a run that has not
  // started.
  explicit LiveRun(std::filesystem::path folder);

  // Reads the files again. `now_s`: a steady clock, in seconds. Missing, truncated or damaged files
  // are ignored: they may be complete the next time.
  void look(double now_s);

  // The ranks that have telemetry, ascending, as of the last look.
  [[nodiscard]] const std::vector<RankNow>& ranks() const noexcept { return ranks_; }
  // From rank 0's log: the number of ranks and the policy; 0 and "" as long as they are not known.
  [[nodiscard]] std::uint32_t expected() const noexcept { return expected_; }
  [[nodiscard]] const std::string& policy() const noexcept { return policy_; }
  [[nodiscard]] bool has_ended() const noexcept;

 private:
  struct Seen {
    std::uint64_t bytes = 0;
    double grown_s = 0;
  };

  void read_head(const std::filesystem::path& log);

  std::filesystem::path folder_;
  std::vector<RankNow> ranks_;
  std::map<std::uint32_t, Seen> seen_;
  std::uint32_t expected_ = 0;
  std::uint32_t capacity_ = 0;
  std::string policy_;
};

// The run as text for a terminal: a line about the job, then one per rank, at most `rows` in all.
// If not all ranks fit, those that wait the most come first.
[[nodiscard]] std::string live_table(const LiveRun& run, const std::string& name, std::size_t rows);
// Only the line about the job.
[[nodiscard]] std::string live_line(const LiveRun& run);

}  // namespace forebay::report

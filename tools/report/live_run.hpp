#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "time_bins.hpp"

namespace forebay::report {

// What one rank did in the last seconds that it wrote of.
struct RankNow {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t depth = 0;     // batches ready at the last step
  std::uint32_t capacity = 0;  // as far as it is known
  Bin lately = {};             // the sums of those seconds
  double lately_s = 0;         // how long they are
  double from_store = 0;       // bytes in the last interval, with a cache
  double from_cache = 0;
  double silent_s = 0;  // since its telemetry last grew, as this process saw it
  bool has_ended = false;

  [[nodiscard]] double steps_per_s() const noexcept { return lately_s > 0 ? lately.steps / lately_s : 0; }
};

// A run that is looked at again and again while it goes: of each rank, the end of its files. Nothing is asked of the
// run itself, which may be on another machine that shares the folder. One thread.
class LiveRun {
 public:
  // Throws Error when there is no such folder. One without files is a run that has not begun.
  explicit LiveRun(std::filesystem::path folder);

  // Looks again. `now_s`: on a clock that keeps running. Files that are missing, cut or damaged tell nothing, which is
  // no error: they may be whole the next time.
  void look(double now_s);

  // Those with telemetry, ascending, as of the last look.
  [[nodiscard]] const std::vector<RankNow>& ranks() const noexcept { return ranks_; }
  // Of the job, from rank 0's log; 0 and "" as long as they are not known.
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

// The run in words for a terminal: a line about the job, then one for each rank as far as `rows` reach, those that wait
// the most first where not all fit.
[[nodiscard]] std::string live_table(const LiveRun& run, const std::string& name, std::size_t rows);
// The line about the job alone.
[[nodiscard]] std::string live_line(const LiveRun& run);

}  // namespace forebay::report

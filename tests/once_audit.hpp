#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "once_case.hpp"
#include "once_job.hpp"

// Whether what the ranks of a job saw is what they must have seen.
namespace forebay::testing {

// A batch that a saved state says is left, and whose.
struct LeftBatch {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint32_t rank = 0;
};

// A state, read as docs/state.md describes it and not by Forebay's own code.
struct ReadState {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t opened = 0;
  std::uint64_t fresh_samples = 0;
  std::uint32_t ranks = 1;
  std::vector<LeftBatch> left;
};
// Throws std::exception when it cannot be read that way.
[[nodiscard]] ReadState read_state_text(std::string_view text);

struct OnceTotals {
  std::uint64_t parts = 0;
  std::uint64_t steps = 0;
  std::uint64_t jobs = 0;
  std::uint64_t in_windows = 0;    // of the jobs
  std::uint64_t in_container = 0;  // of the jobs
  std::uint64_t epochs = 0;        // completed
  std::uint64_t records = 0;       // served fresh and kept
  std::uint64_t kills = 0;         // what was served after the last save was lost
  std::uint64_t fresh = 0;         // batches served for the first time
  std::uint64_t handed_over = 0;   // of them, by another rank than shard mod ranks
  std::uint64_t resumes = 0;
  std::uint64_t rank_changes = 0;  // resumes on another number of ranks
  std::uint64_t states = 0;
  std::uint64_t largest_state = 0;    // bytes
  std::uint64_t ended = 0;            // jobs that ran to their end
  std::uint64_t agreed = 0;           // steps in lockstep at which the ranks were compared
  std::uint64_t logged = 0;           // steps, over all ranks, whose records were read back
  std::uint64_t capped = 0;           // of them, under a cap on uses
  std::uint64_t longest_stop_ms = 0;  // from request_stop() on one rank until all have closed

  OnceTotals& operator+=(const OnceTotals& other);
};

// Follows one job, part by part.
class OnceAudit {
 public:
  explicit OnceAudit(const OnceCase& job);

  // What each rank of the next part saw.
  void add(std::span<const Seen> ranks);

  // What is wrong, one line each; the first few.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept { return violations_; }
  [[nodiscard]] const OnceTotals& totals() const noexcept { return totals_; }

 private:
  using Served = std::map<std::uint64_t, std::vector<std::uint8_t>>;  // by epoch, by batch

  void violate(const std::string& what);
  [[nodiscard]] std::uint64_t samples_of(std::uint64_t batch) const noexcept;
  [[nodiscard]] bool is_complete(const Served& served, std::uint64_t epoch) const;
  [[nodiscard]] std::uint64_t first_incomplete(const Served& served) const;

  bool check_alike(std::span<const Seen> ranks);
  // What the ranks served in steps [from, to) of this part.
  void serve(Served& served, std::span<const Seen> ranks, std::uint64_t from, std::uint64_t to);
  void check_state(const Served& served, const StateSeen& seen);
  void check_steps(std::span<const Seen> ranks);
  void check_end(std::span<const Seen> ranks, std::uint64_t kept);
  void check_owners(std::span<const Seen> ranks);
  void check_lockstep(std::span<const Seen> ranks);
  void check_padding(std::span<const Seen> ranks, std::uint64_t step);
  void check_uses(std::span<const Seen> ranks);
  void check_stop(std::span<const Seen> ranks);

  const OnceCase& job_;
  std::uint64_t batches_ = 0;  // of an epoch
  std::size_t part_ = 0;
  std::uint32_t ranks_before_ = 0;
  bool is_as_dealt_ = true;  // no batch can have changed hands since the shards were dealt out
  std::uint64_t steps_ = 0;  // before this part
  std::uint64_t samples_ = 0;
  Served served_;  // before this part, then at the state that it goes on from
  OnceTotals totals_;
  std::vector<std::string> violations_;
};

// Runs one case on all ranks of the stage. Collective. `directory`: for states, the same on all ranks. Returns totals
// and violations on rank 0; on the others only whether there are violations.
struct OnceResult {
  OnceTotals totals;
  std::vector<std::string> violations;
};
[[nodiscard]] OnceResult run_case(const OnceCase& job, Stage& stage, const std::filesystem::path& directory);

}  // namespace forebay::testing

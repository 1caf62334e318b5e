#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/options.hpp>

#include "agreed_error.hpp"
#include "census.hpp"
#include "liveness.hpp"
#include "lost_part.hpp"

namespace forebay::ranks {

// What all ranks do at this step.
enum class Verdict : std::uint8_t {
  proceed,      // serve a batch
  epoch_ended,  // an epoch is done and others follow; returned once per epoch, and only after end_each_epoch()
  finished,     // the planned steps or epochs are done
  stopped,      // somebody asked to stop
  failed,       // Coordinator::cause() says why
};

// The length of a run. Equal on all ranks.
struct RunPlan {
  std::uint64_t epochs = 1;      // end once all ranks have served this many; ignored if steps > 0
  std::uint64_t steps = 0;       // > 0: end after this many steps (evaluation knows their number in advance)
  std::uint64_t most_steps = 0;  // > 0: end after this many steps at the latest, whatever the other two are
  std::uint64_t completed = 0;   // epochs completed before this run began
  std::size_t lag = 2;           // steps between a report and its effect
};

// How many distinct bad samples the job tolerates. Equal on all ranks.
struct BadLimit {
  std::uint64_t allowed = 0;       // one more fails the run
  std::uint64_t skipped = 0;       // entries already left out by the index, which count
  std::string first_skipped = {};  // path and reason of the first of them, for the message
  std::uint64_t samples = 0;       // in the dataset, for the message
  std::string quarantine;          // the path of the log, for the message
  // Finds losses that are too large even if few samples are bad: called now and then, on all ranks alike.
  std::function<std::optional<LostPart>(const std::unordered_set<std::uint64_t>& bad)> lost = {};
  std::function<std::string(std::uint64_t sample)> name = {};  // for messages
};

// The number of bad samples that max_bad allows in a dataset of `samples` samples, rounded down. on_bad = "fail" allows
// none.
[[nodiscard]] std::uint64_t allowed_bad(const Options& options, std::uint64_t samples) noexcept;

// How many entries the index left out as bad.
[[nodiscard]] std::uint64_t bad_entries(const Dataset& dataset);

// Makes all ranks end, fail and count epochs at the same step. Every rank calls step() once at the start of each
// next(), before it serves; its report takes effect `lag` steps later, on all ranks at the same step. Until then a rank
// that cannot produce serves what it has. Used by the thread that calls next().
class Coordinator {
 public:
  // The communicator must outlive the coordinator. `has_reason_to_end` is called while step() waits for other ranks,
  // and must not block: true once this rank was asked to stop or has failed. The others can then be told even while
  // this rank is inside step(); one of them may be waiting for a batch that never comes. Throws ConfigError (lag), and
  // Error if the index alone has more bad entries than allowed, alike on all ranks.
  Coordinator(Communicator& communicator, const RunPlan& plan, BadLimit limit,
              std::function<bool()> has_reason_to_end = {}, Patience patience = {});
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // From now on an epoch ends with a verdict of its own, on all ranks at the step after the one that served its last
  // batch: once a step may have been that one, step() waits for the reports of all ranks of this very step.
  // REQUIRES: before the first step(); on all ranks; no rank serves a batch of an epoch before that epoch's turn.
  void end_each_epoch() noexcept { ends_each_epoch_ = true; }

  // Reports a sample that this rank cannot serve. Repeats are ignored.
  void report_bad(std::uint64_t sample, std::string_view reason = {});
  // Reports that this rank cannot continue. The first cause is kept, and breaks the others' waits.
  void report_error(std::string_view cause, ErrorKind kind = ErrorKind::error);

  // The verdict for the step that begins now. Waits only for ranks that are more than `lag` steps behind, at the end of
  // the run, or at the end of an epoch. Once the run has ended, the answer stays the same. Throws Error naming a rank
  // that has left or does not arrive.
  [[nodiscard]] Verdict step(RankReport report);

  // The report of all ranks from `lag` steps ago, or from a later step if an epoch ends; at this step the same on every
  // rank. Null in the first `lag` steps. A single rank has no lag. Valid until the next step().
  [[nodiscard]] const JobReport* heard() const noexcept { return heard_; }
  [[nodiscard]] std::size_t lag() const noexcept { return census_.lag(); }

  // To be polled while a step waits for a batch: tells the other ranks if this one wants to end, and returns true if
  // any does. The wait must then be abandoned and something else served, so that the verdict can be reached. Throws
  // Error naming a rank that has left before this step.
  [[nodiscard]] bool interrupted(bool stop_requested);

  // Makes the step that ended an epoch after all, as part of the next one. Its census was already taken, so the others
  // are told by a notice. Throws Error naming a rank that has left since.
  void resume_step(bool stop_requested);

  // Tracks which ranks take part.
  [[nodiscard]] Liveness& liveness() noexcept { return liveness_; }
  // Reports that this rank makes no further step, nor the last one begun if that was not served; the others throw
  // `cause`. `at_epoch_end`: that step ended an epoch, and nothing else has kept this rank from it.
  void leave(std::string_view cause, bool in_step, bool at_epoch_end);
  // After leave(): whether others have made a step without this rank. Never blocks.
  [[nodiscard]] bool others_went_on();

  // Epochs of which all batches were served; advances at the same step on every rank.
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return epochs_completed_; }
  // Distinct bad samples known to this rank, including the index's. After `finished` and `stopped` exact and equal on
  // all ranks.
  [[nodiscard]] std::uint64_t bad_samples() const noexcept { return limit_.skipped + seen_bad_.size(); }
  // Those of them found during the run; after `finished` and `stopped` equal on all ranks.
  [[nodiscard]] const std::unordered_set<std::uint64_t>& met_bad() const noexcept { return seen_bad_; }
  // Why this rank fails by itself, if it knows of more bad samples than the job tolerates.
  [[nodiscard]] std::optional<std::string> too_many_bad_here() const;
  // Why the run failed; equal on all ranks.
  [[nodiscard]] const AgreedError& cause() const noexcept { return cause_; }
  // Time for which the last step() waited for ranks that are behind.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return waited_; }

 private:
  [[nodiscard]] bool has_made_all_steps() const noexcept;
  [[nodiscard]] bool may_have_ended_epoch() const noexcept;
  [[nodiscard]] Verdict hear(const JobReport& job);
  // Fills in the members that the coordinator knows.
  void fill_in(RankReport& report) const noexcept;
  [[nodiscard]] Verdict judge(const JobReport& job);
  [[nodiscard]] Verdict settle(Verdict end);
  [[nodiscard]] Verdict fail(AgreedError cause);
  [[nodiscard]] bool wants_to_end() const noexcept;
  void exchange_bad();
  // Why too much is bad, if it is; collective. REQUIRES: exchange_bad() was called.
  [[nodiscard]] std::optional<std::string> agreed_bad_verdict();
  [[nodiscard]] std::optional<std::string> too_many_bad() const;
  [[nodiscard]] std::string examples(std::vector<std::uint64_t> first);
  [[nodiscard]] std::string what_to_do() const;

  Communicator& communicator_;
  RunPlan plan_;
  BadLimit limit_;
  std::function<bool()> has_reason_to_end_;
  Liveness liveness_;
  Census census_;
  const JobReport* heard_ = nullptr;
  Verdict verdict_ = Verdict::proceed;
  std::optional<AgreedError> error_;  // this rank's
  AgreedError cause_;
  std::uint64_t steps_ = 0;
  std::uint64_t epochs_completed_;
  std::uint64_t to_serve_ = UINT64_MAX;  // in the epoch epochs_completed_
  bool ends_each_epoch_ = false;
  // The latest known progress in the epoch epochs_completed_: how many batches were served before which step.
  std::uint64_t known_served_ = 0;
  std::uint64_t known_at_ = 0;
  std::chrono::nanoseconds waited_{0};
  bool stop_requested_ = false;
  std::optional<std::uint64_t> left_step_;  // the first step that this rank does not make
  bool has_left_ = false;                   // and has reported it

  // Bad samples: seen = agreed by the job (the same set on all ranks) + new (this rank's since the last exchange).
  std::unordered_set<std::uint64_t> seen_bad_;
  std::vector<std::uint64_t> new_bad_;
  std::unordered_map<std::uint64_t, std::string> reasons_;  // for this rank's, as many as messages may need
  std::uint64_t next_look_ = LostParts::kLeast;  // when this many bad samples are agreed, look for lost parts
  std::uint64_t bad_round_ = 0;  // exchanges made; a report of an earlier round counts samples that are agreed by now
};

}  // namespace forebay::ranks

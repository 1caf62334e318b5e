// Makes all ranks end, fail and complete epochs at the same step. Each next() calls step() once,
// before it serves: it posts this rank's report, takes the job's report of `lag` steps ago, and
// judges it. Everything in judge() is a function of that report and of what was agreed before, and
// therefore alike on all ranks; that is the invariant of this file, and a clock, a local counter or
// the order of a hash table must not enter into it.
//
// Collective calls beside the census (agreed_error, exchange_bad) are made only where the judged
// report says so, hence at the same step on every rank. At an end, settle() takes the reports that
// are still under way too, so that what was posted in the last steps counts. On the thread that
// calls next().

#include "coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::ranks {

// "auto" allows one in a hundred, and in a small dataset five, but fewer than half of it
// (docs/decisions/0026-bad-samples-have-a-limit.md).
std::uint64_t allowed_bad(const Options& options, std::uint64_t samples) noexcept {
  if (options.on_bad == OnBad::fail) return 0;
  const BadBudget& budget = options.max_bad;
  if (std::holds_alternative<AutomaticBudget>(budget)) {
    constexpr std::uint64_t kSmall = 5;
    return std::max(samples / 100, std::min(kSmall, (std::max<std::uint64_t>(samples, 1) - 1) / 2));
  }
  if (const auto* count = std::get_if<std::int64_t>(&budget))
    return static_cast<std::uint64_t>(std::max<std::int64_t>(*count, 0));
  constexpr double kRounding = 1e-6;  // 29 % of 100 are 29, although 0.29 * 100 is a little less
  const double share = std::clamp(*std::get_if<double>(&budget), 0.0, 1.0);
  return static_cast<std::uint64_t>(std::floor(share * static_cast<double>(samples) + kRounding));
}

std::uint64_t bad_entries(const Dataset& dataset) {
  return static_cast<std::uint64_t>(std::ranges::count_if(dataset.skipped(), &Skipped::bad));
}

// The census calls the hook while it waits for others: it is the only place from which a rank
// inside step() can tell them that it wants to end.
Coordinator::Coordinator(Communicator& communicator, const RunPlan& plan, BadLimit limit,
                         std::function<bool()> has_reason_to_end, Patience patience)
    : communicator_(communicator),
      plan_(plan),
      limit_(std::move(limit)),
      has_reason_to_end_(std::move(has_reason_to_end)),
      liveness_(communicator, patience),
      census_(communicator, plan.lag,
              [this] {
                if (has_reason_to_end_ && has_reason_to_end_()) liveness_.alert();
                liveness_.wait_for_reports();
              }),
      epochs_completed_(plan.completed) {
  if (const auto problem = too_many_bad()) throw Error(*problem + what_to_do());
}

// Reasons are kept for messages, which show three; the bound matters in runs that allow a large
// share to be bad.
void Coordinator::report_bad(std::uint64_t sample, std::string_view reason) {
  if (!seen_bad_.insert(sample).second) return;
  new_bad_.push_back(sample);
  constexpr std::size_t kMostReasons = 10'000;
  if (reasons_.size() < kMostReasons) reasons_.emplace(sample, reason);
}

void Coordinator::report_error(std::string_view cause, ErrorKind kind) {
  if (!error_) error_ = AgreedError{kind, cause.empty() ? "unknown error" : std::string(cause)};
  liveness_.alert();
}

// If an epoch may have ended at this very step, the newer reports are awaited as well, up to this
// step's own.
Verdict Coordinator::step(RankReport report) {
  waited_ = {};
  if (verdict_ != Verdict::proceed) return verdict_;
  stop_requested_ = stop_requested_ || report.stop;
  to_serve_ = report.to_serve;
  liveness_.begin(steps_);
  if (wants_to_end()) liveness_.alert();
  fill_in(report);
  census_.post(report);
  liveness_.has_posted();
  if (has_made_all_steps()) {
    verdict_ = settle(Verdict::finished);
    return verdict_;
  }
  ++steps_;
  if (const JobReport* const due = census_.due()) verdict_ = hear(*due);
  while (verdict_ == Verdict::proceed && may_have_ended_epoch()) {
    const JobReport* const newer = census_.rest();
    if (newer == nullptr) break;
    verdict_ = hear(*newer);
  }
  if (verdict_ == Verdict::finished || verdict_ == Verdict::stopped) verdict_ = settle(verdict_);
  if (verdict_ == Verdict::epoch_ended) return std::exchange(verdict_, Verdict::proceed);
  return verdict_;
}

Verdict Coordinator::hear(const JobReport& job) {
  heard_ = &job;
  waited_ += census_.last_wait();
  return judge(job);
}

// Each rank serves at most one batch per step. Depends only on what all ranks know alike, so all
// wait at the same steps.
bool Coordinator::may_have_ended_epoch() const noexcept {
  if (!ends_each_epoch_) return false;
  const std::uint64_t steps_since = steps_ - 1 - known_at_;
  return to_serve_ - known_served_ <= steps_since * communicator_.size();
}

bool Coordinator::interrupted(bool stop_requested) {
  stop_requested_ = stop_requested_ || stop_requested;
  const bool alerted = liveness_.alerted();
  if (!wants_to_end()) return alerted;
  liveness_.alert();
  return true;
}

void Coordinator::resume_step(bool stop_requested) {
  (void)interrupted(stop_requested);
  liveness_.go_on();
}

// A step that was begun but not served is the first that this rank does not make. The report that
// says so can be posted only if no other was posted at that step.
void Coordinator::leave(std::string_view cause, bool in_step, bool at_epoch_end) {
  left_step_ = steps_ - (in_step && steps_ > 0 ? 1 : 0);
  liveness_.leave(*left_step_, cause, at_epoch_end);
  has_left_ = !in_step && verdict_ == Verdict::proceed && census_.has_room();
  if (has_left_) census_.post({.left = true});
}

bool Coordinator::others_went_on() {
  if (!left_step_) return false;
  return liveness_.has_gone_on(*left_step_) || (has_left_ && census_.others_went_on());
}

bool Coordinator::has_made_all_steps() const noexcept {
  return (plan_.steps > 0 && steps_ == plan_.steps) || (plan_.most_steps > 0 && steps_ == plan_.most_steps);
}

// Round and epoch are equal on all ranks at a step, and are kept beside the report so that judge()
// knows what it referred to when it comes back.
void Coordinator::fill_in(RankReport& report) const noexcept {
  report.stop = stop_requested_;
  report.error = error_.has_value();
  report.new_bad = static_cast<std::int64_t>(new_bad_.size());
  report.epoch = epochs_completed_;
  report.bad_round = bad_round_;
}

// Everything here is a function of the report and of what was agreed before, so that all ranks judge alike.
Verdict Coordinator::judge(const JobReport& job) {
  if (job.left > 0) liveness_.name_leaver();

  // A report posted before the last epoch was agreed says nothing about the one after it.
  bool has_ended_epoch = false;
  if (job.epoch == epochs_completed_) {
    known_served_ = static_cast<std::uint64_t>(job.served);
    known_at_ = job.step;
    has_ended_epoch = known_served_ == to_serve_;
  }
  if (has_ended_epoch) {
    ++epochs_completed_;
    to_serve_ = UINT64_MAX;
    known_served_ = 0;
  }

  if (job.errors > 0) {
    return fail(agreed_error(communicator_, error_).value_or(AgreedError{.text = "unknown error"}));
  }

  // The sum counts a sample once per rank that found it; only the exchange shows how many are
  // distinct.
  const std::uint64_t agreed_bad = bad_samples() - new_bad_.size();
  const std::uint64_t bad_at_most = agreed_bad + static_cast<std::uint64_t>(job.new_bad);
  const bool may_be_lost = limit_.lost && job.new_bad > 0 && bad_at_most - limit_.skipped >= next_look_;
  if (job.bad_round == bad_round_ && (bad_at_most > limit_.allowed || may_be_lost)) {
    exchange_bad();
    if (auto cause = agreed_bad_verdict()) return fail({.text = *std::move(cause)});
  }

  if (job.stops > 0) return Verdict::stopped;
  if (plan_.steps == 0 && epochs_completed_ >= plan_.epochs) return Verdict::finished;
  return has_ended_epoch && ends_each_epoch_ ? Verdict::epoch_ended : Verdict::proceed;
}

// All ranks end at this step. What they posted in the last steps must not be lost: an error becomes the verdict, and
// the bad samples are counted exactly.
Verdict Coordinator::settle(Verdict end) {
  while (const JobReport* job = census_.rest()) {
    waited_ += census_.last_wait();
    if (judge(*job) == Verdict::failed) return Verdict::failed;
  }
  exchange_bad();
  if (end != Verdict::finished) return end;
  next_look_ = LostParts::kLeast;
  auto cause = agreed_bad_verdict();
  return cause ? fail({.text = *std::move(cause)}) : end;
}

Verdict Coordinator::fail(AgreedError cause) {
  cause_ = std::move(cause);
  return Verdict::failed;
}

// This rank alone has more bad samples than allowed: the job will fail, so nobody need wait for a
// batch any longer.
bool Coordinator::wants_to_end() const noexcept { return stop_requested_ || error_ || bad_samples() > limit_.allowed; }

// Collective: exchanges all new samples as raw 64-bit numbers, whose byte order the ranks of a job
// share. Afterwards the union is equal on all ranks.
void Coordinator::exchange_bad() {
  const std::string_view mine(reinterpret_cast<const char*>(new_bad_.data()), new_bad_.size() * sizeof(std::uint64_t));
  for (const std::string& theirs : communicator_.all_gather(mine)) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= theirs.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t sample = 0;
      std::memcpy(&sample, theirs.data() + at, sizeof(sample));
      seen_bad_.insert(sample);
    }
  }
  new_bad_.clear();
  ++bad_round_;
}

// Looking for a lost part reads names and labels of many samples, so the next look comes when a
// quarter more are bad.
std::optional<std::string> Coordinator::agreed_bad_verdict() {
  if (const auto problem = too_many_bad())
    return *problem + examples({seen_bad_.begin(), seen_bad_.end()}) + what_to_do();
  if (!limit_.lost || seen_bad_.size() < next_look_) return std::nullopt;
  next_look_ = seen_bad_.size() + 1 + seen_bad_.size() / 4;
  auto lost = limit_.lost(seen_bad_);
  if (!lost) return std::nullopt;
  return lost->what + examples(std::move(lost->first)) + what_to_do();
}

std::optional<std::string> Coordinator::too_many_bad() const {
  if (bad_samples() <= limit_.allowed) return std::nullopt;
  std::string message = counted(bad_samples(), "distinct bad sample") + " in a dataset of " +
                        std::to_string(limit_.samples) + ", but max_bad allows " + std::to_string(limit_.allowed);
  if (limit_.skipped > 0)
    message += " (" + std::to_string(limit_.skipped) + " were found by the index" +
               (limit_.first_skipped.empty() ? "" : ", the first: " + limit_.first_skipped) + ")";
  return message;
}

std::optional<std::string> Coordinator::too_many_bad_here() const {
  std::optional<std::string> problem = too_many_bad();
  if (!problem) return problem;
  if (!reasons_.empty() && limit_.name) {
    const auto& [sample, reason] = *reasons_.begin();
    *problem += "; one is " + printable(limit_.name(sample)) + ": " + printable(reason);
  }
  return *problem + what_to_do();
}

// Collective, because the rank that found a sample knows what is wrong with it. The lowest numbers,
// so that all ranks write the same text.
std::string Coordinator::examples(std::vector<std::uint64_t> first) {
  if (!limit_.name) return "";
  constexpr std::size_t kMost = 3;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kMost, first.size()));
  std::ranges::partial_sort(first, first.begin() + shown);
  std::string text;
  for (const std::uint64_t sample : std::span(first).first(static_cast<std::size_t>(shown))) {
    const auto known = reasons_.find(sample);
    const auto reasons = communicator_.all_gather(known == reasons_.end() ? "" : known->second);
    const auto reason = std::ranges::find_if(reasons, [](const std::string& one) { return !one.empty(); });
    text += (text.empty() ? ": " : "; ") + printable(limit_.name(sample)) +
            (reason == reasons.end() ? "" : ": " + printable(*reason));
  }
  return text + (first.size() > kMost ? "; ..." : "");
}

std::string Coordinator::what_to_do() const {
  return (limit_.quarantine.empty() ? "" : "; see " + limit_.quarantine + " for each path and reason") +
         std::string("; repair the files or raise max_bad");
}

}  // namespace forebay::ranks

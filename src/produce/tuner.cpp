// How many reader and decoder threads work. plan_workers() sets the first and the largest numbers
// from the cores, at the start of a run; after that a Tuner is shown one window of measurements
// after the other by the tuning thread (worker_tuning.cpp) and changes one number at a time. It has
// no threads and no clock, so tests/tuner.cpp drives it on simulated machines.
//
// A window goes through the rules in a fixed order: a trial that is under way is judged first; then
// a trainer that computes gets its core back; then, unless the ring is full, more readers are
// tried, then more decoders, and at last readers that only wait are given up. Rates vary from
// window to window, which is why an increase counts as a trial that has to prove itself. What the
// rules are for stands in tuner.hpp; the constants below were chosen by hand on the machines of
// tests/tuner.cpp, and not by a search.

#include "tuner.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/text.hpp"

namespace forebay::produce {
namespace {

// Parallel file systems are not asked by more threads of one rank than this, whatever their latency.
constexpr unsigned kMostReaders = 512;

}  // namespace

std::string describe(const WorkerCounts& counts) {
  return counted(counts.io, "reader") + ", " + counted(counts.decode, "decoder");
}

std::string describe(const WorkerPlan& plan) {
  std::string text = describe(plan.first) + " (" + plan.reason;
  if (plan.tunes()) text += "; to begin with, at most " + describe(plan.most);
  return text + ")";
}

// Eight readers per decoder to begin with, because readers mostly sleep in the store; 16 where
// latency asks for it, and never fewer than 64 allowed, because on a small machine a distant store
// needs as many reads in flight as on a large one.
WorkerPlan plan_workers(const WorkerOptions& options, const Cores& cores, const CoreShare& share) {
  const unsigned mine = share.cores;

  WorkerPlan plan;
  plan.cores = mine;
  if (options.decode != 0) {
    plan.first.decode = plan.most.decode = static_cast<unsigned>(options.decode);
  } else {
    plan.first.decode = std::max(1U, mine - 1);
    plan.most.decode = mine;
  }
  if (options.io != 0) {
    plan.first.io = plan.most.io = static_cast<unsigned>(options.io);
  } else {
    plan.first.io = std::clamp(8 * plan.first.decode, 16U, 64U);
    plan.most.io = std::clamp(16 * plan.most.decode, 64U, kMostReaders);
  }
  plan.reason = counted(mine, "core");
  if (share.is_quota) {
    plan.reason += " by the quota of " + shortest(*cores.quota) + " of its control group";
  } else if (cores.is_bound()) {
    plan.reason += " in the affinity mask";
  }
  if (share.sharers > 1) plan.reason += ", this rank's part of " + std::to_string(cores.usable());
  return plan;
}

namespace {

// Shares of a window from which something is the case.
constexpr double kStarving = 0.03;
constexpr double kFed = 0.05;
constexpr double kBusyReaders = 0.5;
constexpr double kFull = 0.5;            // the ring: production is not what limits the run
constexpr double kFlatOut = 0.1;         // the ring is full for less than this: production does what it can
constexpr double kCrowded = 0.9;         // processor time per time at work, below which decoders wait for cores
constexpr double kTrainerAtWork = 0.25;  // cores
constexpr double kFreeCore = 0.5;        // cores
constexpr double kUsedUp = 0.9;          // of the processor time of all cores: decoders starve for want of it

// Times what Little's law asks for: reads do not all take the mean, and idle readers cost nothing.
constexpr double kReadersInReserve = 2;
// What an increase must bring to stay: this part of what it could, but never more than a gain that is worth having.
constexpr double kPartOfGain = 0.3;
constexpr double kGoodGain = 0.05;
constexpr unsigned kTrialWindows = 3;  // the first of them does not count: work of before ends in it
constexpr unsigned kIdleWindows = 5;
constexpr double kFirstPause_s = 10;
constexpr double kLongestPause_s = 320;

// `reason_` for people. 160 characters are more than any of these formats needs; a longer one would
// be cut, not overrun.
template <typename... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 160> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

// Samples per second in which the ring was not full: what production can do, not what the trainer
// asks for. The lower bounds here and below keep a quotient finite where nothing happened.
double rate(const WorkerWindow& window) {
  return static_cast<double>(window.decoded) / std::max(window.seconds - window.blocked_s, 1e-3);
}

double starved_share(const WorkerWindow& window) {
  return window.starved_s / std::max(window.starved_s + window.decoding_s, 1e-9);
}

// Reads that decoders made themselves are reads too.
double seconds_per_read(const WorkerWindow& window) {
  return (window.reading_s + window.lent_s) / static_cast<double>(std::max<std::uint64_t>(window.reads, 1));
}

double seconds_per_decode(const WorkerWindow& window) {
  return window.decoding_s / static_cast<double>(std::max<std::uint64_t>(window.decoded, 1));
}

}  // namespace

Tuner::Tuner(const WorkerPlan& plan) : plan_(plan), counts_(plan.first), reason_("as they began") {}

// The mean over windows forgets a third per window, so a single one cannot start or end a trial.
bool Tuner::look(const WorkerWindow& window) {
  now_s_ += window.seconds;
  ++settled_;
  // Of one window the rate varies.
  rate_ = settled_ == 1 ? rate(window) : rate_ + (rate(window) - rate_) / 3;
  if (trial_) return judge(window);
  if (window.reads == 0 || window.decoded == 0) return false;
  if (make_way(window)) return true;
  if (window.blocked_s > kFull * window.seconds) return false;
  if (grow_readers(window) || grow_decoders(window)) return true;
  return shrink_readers(window);
}

// Undoes an increase that brought too little. Success is a higher rate or, because rates are noisy,
// decoders that starve much less than before. Three outcomes: the ring fills, and nothing more is
// needed; it has helped, and the next attempt may follow at once; or it has not, the old numbers
// come back, and this side pauses for twice as long as the last time.
bool Tuner::judge(const WorkerWindow& window) {
  Trial& trial = *trial_;
  if (window.blocked_s > kFull * window.seconds) {  // the ring filled: there is enough
    trial_.reset();
    return false;
  }
  if (++trial.windows == 1) return false;
  trial.rate_sum += rate(window);
  trial.starved_sum += starved_share(window);
  if (trial.windows < kTrialWindows) return false;

  const double judged = kTrialWindows - 1;
  const double gain = trial.rate_sum / judged / std::max(trial.rate, 1e-9);
  const double starved = trial.starved_sum / judged;
  const bool relieved = trial.starved > kStarving && starved < 0.5 * trial.starved;
  // More decoders than there are bytes for: now the readers are to be tried.
  const bool passed_on = trial.pause == &decoders_pause_ && starved > kStarving && gain > 0.97;
  Pause& pause = *trial.pause;
  const WorkerCounts before = trial.before;
  trial_.reset();
  if (gain >= trial.wanted_gain || relieved || passed_on) {
    pause.length_s = 0;
    return false;
  }
  set_aside(pause);
  return change(before, text("%u readers with %s brought %.0f %% of the rate before", counts_.io,
                             counted(counts_.decode, "decoder").c_str(), 100 * gain));
}

void Tuner::try_out(const WorkerWindow& window, WorkerCounts counts, Pause& pause, double wanted_gain,
                    std::string reason) {
  trial_ = Trial{
      .before = counts_, .pause = &pause, .rate = rate_, .starved = starved_share(window), .wanted_gain = wanted_gain};
  change(counts, std::move(reason));
}

void Tuner::set_aside(Pause& pause) const noexcept {
  pause.length_s = std::clamp(2 * pause.length_s, kFirstPause_s, kLongestPause_s);
  pause.until_s = now_s_ + pause.length_s;
}

void Tuner::refused(WorkerCounts there) {
  if (there.io < counts_.io) set_aside(readers_pause_);
  if (there.decode < counts_.decode) set_aside(decoders_pause_);
  trial_.reset();
  change(there, "the system allows no more threads");
}

bool Tuner::change(WorkerCounts counts, std::string reason) {
  if (counts == counts_) return false;
  counts_ = counts;
  reason_ = std::move(reason);
  settled_ = 0;
  idle_windows_ = 0;
  return true;
}

// Little's law: reads in flight = rate times the time of one read, where the rate is what the
// decoders could take. With a reserve, at least one more and at most twice as many, so that a wrong
// estimate is found out early. Only while the readers there are do read: idle ones would not be
// helped by company.
bool Tuner::grow_readers(const WorkerWindow& window) {
  const double starved = starved_share(window);
  if (starved < kStarving || counts_.io >= plan_.most.io || now_s_ < readers_pause_.until_s) return false;
  if (window.reading_s < kBusyReaders * counts_.io * window.seconds) return false;
  const double takes = counts_.decode / seconds_per_decode(window);
  const double needed = std::min(std::ceil(kReadersInReserve * takes * seconds_per_read(window)), 1e6);
  const unsigned readers =
      std::min(std::clamp(static_cast<unsigned>(needed), counts_.io + 1, 2 * counts_.io), plan_.most.io);
  // The gain that could come at best: in proportion to the readers, and no more than the decoders'
  // starving costs now.
  const double possible = std::min(static_cast<double>(readers) / counts_.io, 1 / (1 - std::min(starved, 0.99)));
  try_out(window, {readers, counts_.decode}, readers_pause_, 1 + std::min(kPartOfGain * (possible - 1), kGoodGain),
          text("decoders waited for bytes %.0f %% of the time, a read takes %.2g ms", 100 * starved,
               1e3 * seconds_per_read(window)));
  return true;
}

// Only where decoding is the limit: decoders never starve and the ring is not full. Half a core has
// to be idle, the trainer's own work counted, or the new thread would only take time from another.
bool Tuner::grow_decoders(const WorkerWindow& window) {
  if (counts_.decode >= plan_.most.decode || now_s_ < decoders_pause_.until_s) return false;
  if (starved_share(window) > kFed || window.blocked_s > kFlatOut * window.seconds) return false;
  const double used = (window.decoder_cpu_s + window.trainer_cpu_s) / window.seconds;
  if (plan_.cores - used < kFreeCore) return false;
  // Of many decoders one more brings less than rates vary; it stays unless it does harm.
  const double wanted_gain = 1 + std::min(kPartOfGain / counts_.decode, kGoodGain) - 0.02;
  try_out(window, {counts_.io, counts_.decode + 1}, decoders_pause_, wanted_gain,
          text("decoding was the limit and %.1f of %u cores were idle", plan_.cores - used, plan_.cores));
  return true;
}

// No trial: the trainer is what the run is for. It counts as computing at a quarter of a core, and
// decoders as crowded when they get less than nine tenths of the time they want.
bool Tuner::make_way(const WorkerWindow& window) {
  if (counts_.decode <= plan_.first.decode) return false;
  if (window.trainer_cpu_s < kTrainerAtWork * window.seconds) return false;
  if (window.decoder_cpu_s >= kCrowded * window.decoding_s) return false;
  set_aside(decoders_pause_);
  return change({counts_.io, counts_.decode - 1},
                text("the trainer computes (%.1f cores) and decoders got %.0f %% of a core each",
                     window.trainer_cpu_s / window.seconds, 100 * window.decoder_cpu_s / window.decoding_s));
}

// Idle readers cost almost nothing, so this waits for several windows that agree, and leaves half
// as many again as are in flight. A window that disagrees takes back two.
bool Tuner::shrink_readers(const WorkerWindow& window) {
  const double in_flight = (window.reading_s + window.lent_s) / window.seconds;
  const auto needed = static_cast<unsigned>(std::ceil(1.5 * in_flight)) + 1;
  const double used = window.decoder_cpu_s + window.reader_cpu_s + window.trainer_cpu_s;
  const bool used_up = used >= kUsedUp * plan_.cores * window.seconds;
  const bool fed = starved_share(window) < kFed;
  const bool far_fewer = (fed || used_up) && window.blocked_s < kFlatOut * window.seconds && counts_.io > 2 * needed &&
                         plan_.first.io != plan_.most.io;
  idle_windows_ = far_fewer ? idle_windows_ + 1 : idle_windows_ - std::min(idle_windows_, 2U);
  if (idle_windows_ < kIdleWindows) return false;
  return change({needed, counts_.decode}, text("%s, and %.1f reads were in flight at a time",
                                               fed ? "decoding is the limit" : "all cores are busy", in_flight));
}

// All three at once: readers have no requests although decoders have no bytes and the ring is not
// full. Then what limits is how many samples were asked for. One window may show that by chance, so
// windows that do are counted, and the others taken off.
bool AskTuner::look(const WorkerWindow& window, const WorkerCounts& counts) noexcept {
  if (window.decoded == 0) return false;  // nothing comes, however much is asked for
  const bool is_short = window.unasked_s > kUnasked * counts.io * window.seconds &&
                        window.starved_s > kStarved * counts.decode * window.seconds &&
                        window.blocked_s < kBlocked * window.seconds;
  if (!is_short) {
    if (windows_ > 0) --windows_;
    return false;
  }
  if (++windows_ < kWindows) return false;
  windows_ = 0;
  return true;
}

}  // namespace forebay::produce

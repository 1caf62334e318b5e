#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>

#include "base/clock.hpp"

namespace forebay::ranks {

// How long a rank waits for others, in time for which its process ran.
struct Patience {
  const RunningTime* time = nullptr;  // must outlive what uses it; null = no limit
  double limit_s = 0;                 // 0 = no limit

  // How long ranks that give up listen to each other, so that all end with the same cause: many times as long as a
  // notice takes.
  [[nodiscard]] std::chrono::duration<double> settling() const noexcept {
    return std::chrono::duration<double>(std::min(2.0, limit_s / 10));
  }
};

// Tracks which ranks still take part. Agreements are made in collective calls, so a rank that no longer makes any can
// be identified only by its own notices or by its silence. Ranks tell each other that they want to end, have left and
// why, resume after the end of an epoch, and, once a wait gets long, that they are waiting, are busy with what others
// wait for, or have given up on the silent ones. Used by the thread that calls next().
class Liveness {
 public:
  // The communicator must outlive this.
  Liveness(Communicator& communicator, Patience patience);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // Also watches waits in Communicator::all_gather() from now on.
  void watch_gathers();

  // Step `step` begins, counted from 0 on all ranks alike. Throws Error naming a rank that will not make it.
  void begin(std::uint64_t step);
  // This rank's report of the step is posted.
  void has_posted() noexcept { ++posts_; }

  // Tells the others that this rank wants to end, which breaks their waits; they may be waiting for what never comes.
  // Sends once, however often it is called; not at all if another rank has said the same, and in a large job not
  // immediately, unless this is rank 0. A launcher's signal reaches all ranks, and if each sent to each, that would be
  // 10^10 messages with 100,000 ranks.
  void alert();
  // The same, always immediately: for a rank that will not call alert() again.
  void alert_at_once();
  // Whether another rank wants to end. Never blocks. Throws Error if a rank that has left is missing in this very step.
  [[nodiscard]] bool alerted();

  // To be called repeatedly while waiting for the reports of others. Throws Error naming a rank that will not make this
  // step, and, if the wait gets too long, WatchdogError naming the missing ranks, which ends the run for all: ranks
  // that hear each other throw the same text.
  void wait_for_reports() { wait(false); }
  // Called if a report says that its rank has left. Throws Error naming it.
  [[noreturn]] void name_leaver();

  // Tells the others that this rank makes the last step begun, with which an epoch ended; no report shows that.
  void go_on();
  // Whether another rank has said that it makes step `step` or a later one. Never blocks.
  [[nodiscard]] bool has_gone_on(std::uint64_t step);

  // Tells the others that this rank makes no step from `step` on; they throw `cause` when they reach it.
  // `at_epoch_end`: it has reported `step`, with which an epoch ended; they throw if they make the step all the same.
  void leave(std::uint64_t step, std::string_view cause, bool at_epoch_end = false);
  // Whether this rank has left, or has thrown an error that names another one.
  [[nodiscard]] bool is_over() const noexcept { return !over_.empty(); }
  // The cause; empty if is_over() is false.
  [[nodiscard]] const std::string& cause() const noexcept { return over_; }

  // Tells the others that this rank is busy with something they wait for and will arrive, which restarts their
  // patience. To be called repeatedly in the meantime; sends several times per period of patience.
  void excuse();

 private:
  struct Departure {
    std::uint64_t step = 0;  // the first that the rank does not make
    std::uint32_t rank = 0;
    std::uint64_t gathers = 0;  // number of gathers that it completed
    bool gave_up = false;       // because others did not arrive
    bool at_epoch_end = false;  // it has reported that step, which ended an epoch
    std::string cause;
  };

  [[nodiscard]] std::chrono::milliseconds hold_off() const noexcept;
  void hear();
  void understand(const Notice& notice);
  // Inline, because it is called at each step and usually nobody has left.
  void require_all(bool gathers) {
    if (!departures_.empty()) end_if_missed(gathers);
  }
  void end_if_missed(bool gathers);
  void tell_departure(std::string_view kind, const Departure& departure);
  [[noreturn]] void end(const std::string& cause);
  // Throws WatchdogError with the text of the lowest rank, once those that give up have heard each other.
  [[noreturn]] void end_together();
  void wait(bool gathers);
  void say_here(std::uint64_t event, double waited_s);
  // Throws WatchdogError. `event`: the collective call in which this rank waits.
  [[noreturn]] void give_up(std::uint64_t event, double waited_s);
  [[nodiscard]] std::string missing(std::uint64_t event) const;

  Communicator& communicator_;
  Patience patience_;
  bool watches_gathers_ = false;
  std::uint64_t step_ = 0;
  bool goes_on_ = false;  // makes step_, although an epoch ended with its report
  std::uint64_t posts_ = 0;
  std::optional<std::chrono::steady_clock::time_point> wished_;  // when this rank first wanted to end
  bool has_alerted_ = false;
  bool is_alerted_ = false;
  std::optional<std::uint64_t> latest_on_;                            // the latest step that another rank said it makes
  std::vector<Departure> departures_;                                 // by step and rank
  std::optional<std::chrono::steady_clock::time_point> given_up_at_;  // when this rank first heard of it or did it
  std::string over_;

  // The current wait. Collective calls are numbered as events, in the same order on all ranks, so a rank that waits in
  // the same event or a later one is not the one being waited for.
  std::uint64_t waits_in_ = 0;
  RunningTime::Duration began_{0};
  std::uint64_t said_here_ = 0;               // the event that this rank last said it waits in
  std::uint64_t latest_here_ = 0;             // the latest that any other rank said
  std::uint64_t answered_ = 0;                // the latest event of others that this rank has answered
  std::vector<std::uint64_t> others_events_;  // by rank, the latest event that it named
  std::vector<bool> has_spoken_;              // by rank: since this rank first said that it waits in the event
  std::optional<RunningTime::Duration> excused_at_;
};

}  // namespace forebay::ranks

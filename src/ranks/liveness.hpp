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

// How long a rank waits for others, in time that its process ran.
struct Patience {
  const RunningTime* time = nullptr;  // must outlive what uses it; null = no limit
  double limit_s = 0;                 // 0 = no limit

  // How long ranks that give up listen to each other, so that all end on one cause: many times as long as a notice
  // takes.
  [[nodiscard]] std::chrono::duration<double> settling() const noexcept {
    return std::chrono::duration<double>(std::min(2.0, limit_s / 10));
  }
};

// Which ranks still take part. Agreements travel in collective calls, so a rank that makes none any more can only be
// named by notices of its own, or by the silence that it leaves. Ranks tell each other that one of them wants to end,
// that one has left and why, that one resumes after the end of an epoch, and, once a wait gets long, that one is
// waiting, is busy with what is waited for, or has given the silent ones up. Used by the thread that calls next().
class Liveness {
 public:
  // The communicator must outlive this.
  Liveness(Communicator& communicator, Patience patience);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // From now on waits in Communicator::all_gather() are watched as well.
  void watch_gathers();

  // Step `step` begins, counted from 0 on all ranks alike. Throws Error naming a rank that will not make it.
  void begin(std::uint64_t step);
  // This rank's report of the step is posted.
  void has_posted() noexcept { ++posts_; }

  // This rank wants to end, and others may be waiting for what never comes: breaks their waits, once. May be called
  // again and again. Not told when another rank has said the same; and in a large job not at once, unless by rank 0. A
  // launcher's signal reaches all ranks, and each would send to each: 10^10 messages with 100,000 ranks.
  void alert();
  // The same in any case at once: for a rank that goes where it would not call alert() again.
  void alert_at_once();
  // Another rank wants to end. Never blocks. Throws Error when one that has left is missing in this very step.
  [[nodiscard]] bool alerted();

  // To be called again and again while reports of others are waited for. Throws Error naming a rank that will not make
  // this step, and, when that gets too long, WatchdogError naming the ranks that have not come, which ends the run for
  // all: ranks that hear each other throw the same text.
  void wait_for_reports() { wait(false); }
  // A report says that its rank has left. Throws Error naming it.
  [[noreturn]] void name_leaver();

  // This rank makes the step that was begun last, which no report of the others shows.
  void go_on();
  // Another rank has said that it makes a step from `step` on. Never blocks.
  [[nodiscard]] bool has_gone_on(std::uint64_t step);

  // This rank makes no step from `step` on; the others throw `cause` when they come to it, or have come.
  void leave(std::uint64_t step, std::string_view cause);
  // This rank has left, or has thrown an error that names another one.
  [[nodiscard]] bool is_over() const noexcept { return !over_.empty(); }
  // Why; empty = it is not over.
  [[nodiscard]] const std::string& cause() const noexcept { return over_; }

  // This rank is busy with something that the others wait for, and will come: their patience begins anew. To be called
  // again and again meanwhile; tells them several times within it.
  void excuse();

 private:
  struct Departure {
    std::uint64_t step = 0;  // the first that the rank does not make
    std::uint32_t rank = 0;
    std::uint64_t gathers = 0;  // that it completed
    bool gave_up = false;       // because others did not come
    std::string cause;
  };

  [[nodiscard]] std::chrono::milliseconds hold_off() const noexcept;
  void hear();
  void understand(const Notice& notice);
  // In line: each step asks, and mostly nobody has left.
  void require_all(bool gathers) {
    if (!departures_.empty()) end_if_missed(gathers);
  }
  void end_if_missed(bool gathers);
  void tell_departure(std::string_view kind, const Departure& departure);
  [[noreturn]] void end(const std::string& cause);
  // Throws WatchdogError, once those who give up have heard each other: what the lowest of them says.
  [[noreturn]] void end_together();
  void wait(bool gathers);
  void say_here(std::uint64_t event, double waited_s);
  // Throws WatchdogError. `event`: what this rank waits in.
  [[noreturn]] void give_up(std::uint64_t event, double waited_s);
  [[nodiscard]] std::string missing(std::uint64_t event) const;

  Communicator& communicator_;
  Patience patience_;
  bool watches_gathers_ = false;
  std::uint64_t step_ = 0;
  std::uint64_t posts_ = 0;
  std::optional<std::chrono::steady_clock::time_point> wished_;  // when this rank first wanted to end
  bool has_alerted_ = false;
  bool is_alerted_ = false;
  std::optional<std::uint64_t> latest_on_;                            // the latest step that another said it makes
  std::vector<Departure> departures_;                                 // by step and rank
  std::optional<std::chrono::steady_clock::time_point> given_up_at_;  // when this rank heard of it, or did it, first
  std::string over_;

  // A wait. Collective calls are counted as events, in the same order on all ranks, so that a rank that waits in the
  // same event or a later one is not the one that is waited for.
  std::uint64_t waits_in_ = 0;
  RunningTime::Duration began_{0};
  std::uint64_t said_here_ = 0;               // the event that this rank last said it waits in
  std::uint64_t latest_here_ = 0;             // the latest that any other said
  std::uint64_t answered_ = 0;                // the latest of others that this rank has answered
  std::vector<std::uint64_t> others_events_;  // by rank, the latest that it said
  std::vector<bool> has_spoken_;              // by rank: since this one first said that it waits in the event
  std::optional<RunningTime::Duration> excused_at_;
};

}  // namespace forebay::ranks

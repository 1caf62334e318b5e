#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>

#include "base/clock.hpp"

namespace forebay {

// How long a rank waits for others, in time that its process ran.
struct Patience {
  const RunningTime* time = nullptr;  // must outlive what uses it; null = no limit
  double limit_s = 0;                 // 0 = no limit
};

// Which ranks still take part. Agreements travel in collective calls, so a rank that makes none any more can only be
// named by words of its own, or by the silence that it leaves. Ranks tell each other four things: that one of them
// wants to end, that one has left and why, that one resumes after the end of an epoch, and, once a wait gets long, that
// one is waiting.
// Used by the thread that calls next().
class Attendance {
 public:
  // The communicator must outlive this.
  Attendance(Communicator& communicator, Patience patience);
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // From now on waits in Communicator::all_gather() are watched as well.
  void watch_gathers();

  // Step `step` begins, counted from 0 on all ranks alike. Throws Error naming a rank that will not make it.
  void begin(std::uint64_t step);
  // This rank's ballot of the step is posted.
  void has_posted() noexcept { ++posts_; }

  // Breaks the waits of the others, who may be waiting for what never comes. Once.
  void alert();
  // Another rank wants to end. Never blocks. Throws Error when one that has left is missing in this very step.
  [[nodiscard]] bool alerted();

  // To be called again and again while ballots of others are waited for. Throws Error naming a rank that will not make
  // this step, and, when that gets too long, WatchdogError naming the ranks that have not come, which ends the run for
  // all.
  void wait_for_ballots() { wait(false); }
  // A ballot says that its rank has left. Throws Error naming it.
  [[noreturn]] void name_leaver();

  // This rank makes the step that was begun last, which no ballot of the others shows.
  void go_on();
  // Another rank has said that it makes a step from `step` on. Never blocks.
  [[nodiscard]] bool has_gone_on(std::uint64_t step);

  // This rank makes no step from `step` on; the others throw `cause` when they come to it, or have come.
  void leave(std::uint64_t step, std::string_view cause);
  // This rank has left, or has thrown an error that names another one.
  [[nodiscard]] bool is_over() const noexcept { return !over_.empty(); }
  // Why; empty = it is not over.
  [[nodiscard]] const std::string& cause() const noexcept { return over_; }

  // While it exists, ranks may be waited for as long as it takes: they are known to be there, and to wait for what is
  // not theirs to hurry. Those that leave are still named.
  class NoLimit {
   public:
    explicit NoLimit(Attendance& attendance) noexcept : attendance_(attendance) { attendance_.has_limit_ = false; }
    ~NoLimit() { attendance_.has_limit_ = true; }
    NoLimit(const NoLimit&) = delete;
    NoLimit& operator=(const NoLimit&) = delete;

   private:
    Attendance& attendance_;
  };

 private:
  struct Departure {
    std::uint64_t step = 0;  // the first that the rank does not make
    std::uint32_t rank = 0;
    std::uint64_t gathers = 0;  // that it completed
    std::string cause;
  };

  void hear();
  void understand(const Word& word);
  void require_all(bool gathers);
  [[noreturn]] void end(const std::string& cause);
  void wait(bool gathers);
  // Throws WatchdogError. `event`: what this rank waits in.
  [[noreturn]] void give_up(std::uint64_t event, double waited_s);
  [[nodiscard]] std::string missing(std::uint64_t event) const;

  Communicator& communicator_;
  Patience patience_;
  bool watches_gathers_ = false;
  std::uint64_t step_ = 0;
  std::uint64_t posts_ = 0;
  bool has_alerted_ = false;
  bool is_alerted_ = false;
  bool has_limit_ = true;
  std::optional<std::uint64_t> latest_on_;  // the latest step that another said it makes
  std::vector<Departure> departures_;       // by step and rank
  std::string over_;

  // A wait. Collective calls are counted as events, in the same order on all ranks, so that a rank that waits in the
  // same event or a later one is not the one that is waited for.
  std::uint64_t waits_in_ = 0;
  RunningTime::Duration began_{0};
  std::uint64_t said_here_ = 0;               // the event that this rank last said it waits in
  std::uint64_t latest_here_ = 0;             // the latest that any other said
  std::vector<std::uint64_t> others_events_;  // by rank, the latest that it said
};

}  // namespace forebay

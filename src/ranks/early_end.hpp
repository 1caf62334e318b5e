#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <forebay/communicator.hpp>

#include "ranks.hpp"

namespace forebay::ranks {

// How long a rank that ends waits for the others: long enough for those that are a step behind, short enough not to
// look like a hang when one is gone.
inline constexpr double kPartingS = 5;

// Ends a rank that does not end together with the others: tells them, and does not wait for them forever. Used by the
// thread that calls next().
class EarlyEnd {
 public:
  // References must outlive it. `watchdog_s`: how long ranks may keep each other waiting; 0 = no limit. `warn`: logs a
  // line before a wait that may end the job.
  EarlyEnd(Communicator& communicator, Ranks& ranks, double watchdog_s,
           std::function<void(const std::string& line)> warn)
      : communicator_(communicator), ranks_(ranks), watchdog_s_(watchdog_s), warn_(std::move(warn)) {}
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  // Reports an error in the middle of a step, when this rank can no longer agree with the others. They are told and end
  // with the same text, which is returned.
  [[nodiscard]] const std::string& fail(const char* what);
  // Reports that this rank leaves after `steps` steps while others may be about to make another.
  void leave(std::uint64_t steps);
  // Ends the communication between the ranks; bounded. If others wait for this rank in their own MPI calls, where
  // nothing can reach them, the job is aborted, after `before_abort()`.
  void part(const std::function<void()>& before_abort);

 private:
  Communicator& communicator_;
  Ranks& ranks_;
  double watchdog_s_;
  std::function<void(const std::string& line)> warn_;
  std::string cause_;  // as told to the others
  bool has_failed_ = false;
};

}  // namespace forebay::ranks

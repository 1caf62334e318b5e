#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <forebay/communicator.hpp>

#include "ranks.hpp"

namespace forebay::ranks {

// How a rank ends that does not end together with the others: it tells them, and does not wait for them for ever.
// Used by the thread that calls next().
class EarlyEnd {
 public:
  // References must outlive it. `watchdog_s`: how long ranks may keep each other waiting; 0 = as long as they like.
  // `warn`: for people, before a wait that may end the job.
  EarlyEnd(Communicator& communicator, Ranks& ranks, double watchdog_s,
           std::function<void(const std::string& line)> warn)
      : communicator_(communicator), ranks_(ranks), watchdog_s_(watchdog_s), warn_(std::move(warn)) {}
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  // This rank has met an error in the middle of a step, where it cannot agree with the others any more. They are told
  // and end on the same text, which is returned.
  [[nodiscard]] const std::string& fail(const char* what);
  // This rank leaves after so many steps while others may be about to make another.
  void leave(std::uint64_t steps);
  // The end of the talk between the ranks; bounded. Where others wait for this rank in calls of their own, in which
  // nothing can reach them, the job is aborted, after `before_abort()`.
  void part(const std::function<void()>& before_abort);

 private:
  // `others_went_on` changes meanwhile.
  void wait_for_others(const std::function<void()>& before_abort, const bool& others_went_on);

  Communicator& communicator_;
  Ranks& ranks_;
  double watchdog_s_;
  std::function<void(const std::string& line)> warn_;
  std::string cause_;  // that the others were told
  bool has_failed_ = false;
};

}  // namespace forebay::ranks

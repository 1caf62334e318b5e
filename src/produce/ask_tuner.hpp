#pragma once

#include "tuner.hpp"

namespace forebay::produce {

// Decides when more batches have to be asked for at a time, out of what the workers did. No threads, no clocks.
//
// No more samples are asked for than the ring has room for. Where reads take long that leaves readers without requests
// and decoders without bytes, although the ring is never full: as long as it does, twice as many batches are asked for.
class AskTuner {
 public:
  // Takes in a window, during all of which `counts` worked. Returns true when more should be asked for.
  bool look(const WorkerWindow& window, const WorkerCounts& counts) noexcept;

 private:
  // Shares of the time: of all readers without requests, of all decoders without bytes, and of a full ring.
  static constexpr double kUnasked = 0.05;
  static constexpr double kStarved = 0.1;
  static constexpr double kBlocked = 0.1;
  static constexpr unsigned kWindows = 3;  // more than those that were otherwise

  unsigned windows_ = 0;
};

}  // namespace forebay::produce

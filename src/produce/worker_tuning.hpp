#pragma once

#include <atomic>
#include <functional>
#include <string_view>
#include <thread>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "measure/profiler.hpp"
#include "ring/slot_ring.hpp"
#include "tuner.hpp"

namespace forebay::produce {

// The objects that the tuning observes and controls; all must outlive it.
struct TuningLinks {
  WorkerPool& readers;
  WorkerPool& decoders;
  ring::SlotRing& ring;                           // queue.capacity = "auto": it may grow
  std::function<measure::Observation()> observe;  // of the pipeline
  std::function<void(std::string_view)> tell;     // logs a line when the numbers have settled
};

// A thread that observes the workers a few times a second, has a Tuner decide how many are wanted, and has an AskTuner
// decide whether enough is requested from them.
class WorkerTuning {
 public:
  // Starts the thread, if there is anything to tune. Throws Error if the system allows no more threads.
  WorkerTuning(TuningLinks links, const WorkerPlan& plan);
  ~WorkerTuning() { stop(); }
  WorkerTuning(const WorkerTuning&) = delete;
  WorkerTuning& operator=(const WorkerTuning&) = delete;

  // Joins the thread; the numbers stay as they are. Call before the pools are stopped. Idempotent.
  void stop();

 private:
  void run();
  [[nodiscard]] bool may_grow() const noexcept { return links_.ring.capacity() < links_.ring.most_capacity(); }
  // Sets the numbers of workers to what the tuner wants, as far as there are threads.
  void steer();
  [[nodiscard]] static WorkerWindow between(const measure::Observation& begin, const measure::Observation& end);
  void tell_if_settled();
  void tell_if_grown();

  WaitPoint wake_;
  TuningLinks links_;
  Tuner tuner_;
  AskTuner asks_;
  bool tunes_workers_;
  WorkerCounts told_;
  std::uint32_t capacity_;  // of the ring, at the last look
  std::uint32_t told_capacity_;
  std::uint32_t asked_ = 0;   // the capacity that the readers needed
  unsigned settled_for_ = 0;  // looks since the capacity changed
  bool told_of_refusal_ = false;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace forebay::produce

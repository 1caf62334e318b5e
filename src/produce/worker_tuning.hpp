#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "read/requests.hpp"
#include "tuner.hpp"

namespace forebay {

// What the tuning looks at and steers; all of it must outlive it.
struct TuningLinks {
  WorkerPool& readers;
  WorkerPool& decoders;
  const WorkerTotals& totals;
  std::function<std::chrono::nanoseconds()> blocked;  // time for which the ring was full, so far
  std::function<void(std::string_view)> tell;         // a line for people, when the numbers have settled
};

// A thread that looks at the workers a few times a second and has a Tuner decide how many are wanted.
class WorkerTuning {
 public:
  // Starts the thread, if there is anything to tune. Throws Error when the system has no more of them.
  WorkerTuning(TuningLinks links, const WorkerPlan& plan);
  ~WorkerTuning() { stop(); }
  WorkerTuning(const WorkerTuning&) = delete;
  WorkerTuning& operator=(const WorkerTuning&) = delete;

  // Joins the thread: the numbers stay as they are. Call before the pools are stopped; idempotent.
  void stop();

 private:
  // Everything that only grows, at one moment.
  struct Reading {
    WaitPoint::Clock::time_point time;
    std::uint64_t reads = 0;
    std::uint64_t decoded = 0;
    ActivityTimes readers{};
    ActivityTimes decoders{};
    std::chrono::nanoseconds reader_cpu{0};
    std::chrono::nanoseconds decoder_cpu{0};
    std::chrono::nanoseconds process_cpu{0};
    std::chrono::nanoseconds blocked{0};
  };

  void run();
  // Has as many work as the tuner wants, as far as there are threads.
  void steer();
  [[nodiscard]] Reading read() const;
  [[nodiscard]] static WorkerWindow between(const Reading& begin, const Reading& end);
  void tell_if_settled();

  WaitPoint wake_;
  TuningLinks links_;
  Tuner tuner_;
  WorkerCounts told_;
  bool told_of_refusal_ = false;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace forebay

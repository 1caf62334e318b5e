#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/wait.hpp"
#include "console_log.hpp"
#include "decision_ring.hpp"
#include "read/requests.hpp"
#include "record_ring.hpp"
#include "reporter.hpp"
#include "step_record.hpp"

namespace forebay {

// The telemetry of one rank: takes a record per step from the trainer's thread and reports from a thread of its own,
// so that no disk, terminal or formatting is ever felt by the trainer. A disk that is too slow costs records, which
// are counted.
class Telemetry {
 public:
  // Throws ConfigError naming telemetry.dir, and Error when the thread cannot be had. `gauges` is called here and on
  // the telemetry thread until close() returned; `totals` and `console` must outlive the object.
  Telemetry(const TelemetrySetup& setup, const WorkerTotals& totals, std::function<Gauges()> gauges,
            ConsoleLog& console);
  ~Telemetry();  // close()
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // The trainer's thread, not after close(). Wait-free: no lock, no allocation, no system call.
  void record(const StepRecord& step) noexcept {
    if (!active_) return;
    if (decisions_) decisions_->push(step.decided_fresh);
    ring_.push(step);
  }

  // Records lost so far, to a full ring or a failing disk. Any thread.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return ring_.dropped() + reporter_.lost(); }

  // Reports everything recorded before the call, flushes and ends the thread. The trainer's thread; idempotent.
  void close();

 private:
  void run(const std::stop_token& stop);
  void take_decisions();
  void report_once(const char* cause);

  WaitPoint stopping_;
  RecordRing ring_;
  std::unique_ptr<DecisionRing> decisions_;  // none = they are not recorded
  ConsoleLog& console_;
  Reporter reporter_;
  const bool active_;
  bool troubled_ = false;  // telemetry thread only
  std::jthread thread_;
};

}  // namespace forebay

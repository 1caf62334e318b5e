#include "telemetry.hpp"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "base/thread.hpp"

namespace forebay {
namespace {

// Nobody wakes the thread per record: it looks this often. Well below what the eye sees in the status line, and far
// from filling the ring at any step rate of a real trainer.
constexpr std::chrono::milliseconds kPeriod{40};

double seconds_of(WaitPoint::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

Telemetry::Telemetry(const TelemetrySetup& setup, const WorkerTotals& totals, std::function<Gauges()> gauges,
                     ConsoleLog& console)
    : ring_(setup.records),
      decisions_(setup.recording ? std::make_unique<DecisionRing>() : nullptr),
      console_(console),
      reporter_(setup, totals, std::move(gauges), console),
      active_(reporter_.has_audience()) {
  if (!active_) return;
  thread_ = start_thread<std::jthread>("forebay-telem", [this](const std::stop_token& stop) { run(stop); });
}

Telemetry::~Telemetry() { close(); }

void Telemetry::close() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  stopping_.notify_all();
  thread_.join();
}

void Telemetry::run(const std::stop_token& stop) {
  bool last = false;
  while (!last) {
    // Asked before draining: what was recorded before close() is seen by the drain that follows.
    last = stopping_.wait_until(WaitPoint::Clock::now() + kPeriod, [&] { return stop.stop_requested(); });
    try {
      if (decisions_) take_decisions();
      for (StepRecord record; ring_.pop(record);) reporter_.add(record);
      const double now_s = seconds_of(WaitPoint::Clock::now());
      last ? reporter_.finish(now_s, ring_.dropped()) : reporter_.tick(now_s, ring_.dropped());
    } catch (const std::exception& e) {
      report_once(e.what());
    }
  }
}

void Telemetry::take_decisions() {
  // Asked before draining: only then has every step before the first one that was refused been taken.
  const bool full = decisions_->is_full();
  decisions_->drain([this](bool fresh) { reporter_.add_decision(fresh); });
  if (full) reporter_.end_decisions("the disk of telemetry.dir is too slow");
}

// Telemetry must not end a run: what it cannot handle is told once, and the ring is still emptied.
void Telemetry::report_once(const char* cause) {
  if (std::exchange(troubled_, true)) return;
  console_.warn("telemetry: " + printable(cause) + "; its files may be incomplete, the run continues");
}

}  // namespace forebay

#include "clock.hpp"

#include <algorithm>

#include "thread.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;

// since() lags by at most three periods, and 3/32 is less than a tenth. 1/32 of the limit, but
// between a millisecond and a quarter of a second (both chosen).
RunningTime::Duration period_for(double limit_s) noexcept {
  constexpr double kShare = 1.0 / 32;
  constexpr RunningTime::Duration kShortest = 1ms;
  constexpr RunningTime::Duration kLongest = 250ms;
  // Compared as seconds: a limit of years would overflow nanoseconds.
  const double period_s = std::min(limit_s * kShare, std::chrono::duration<double>(kLongest).count());
  return std::max(kShortest,
                  std::chrono::duration_cast<RunningTime::Duration>(std::chrono::duration<double>(period_s)));
}

}  // namespace

void pause_before_look(int look) {
  constexpr int kYields = 64;
  if (look < kYields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(50us);
  }
}

// A gap longer than most_ (two periods) means that the process did not run, so only most_ of it
// counts.
void RunningTime::tick(Clock::time_point now) noexcept {
  const Duration gap = std::clamp<Duration>(now - last_, Duration::zero(), most_);
  last_ = now;
  elapsed_.store((this->now() + gap).count(), std::memory_order_relaxed);
}

// Minus the longest tick, part of which may lie before the mark, so that no limit is reported as
// reached too early.
RunningTime::Duration RunningTime::since(Duration mark) const noexcept {
  return std::max(Duration::zero(), now() - mark - most_);
}

RunningClock::RunningClock(double limit_s) : period_(period_for(limit_s)), time_(period_, RunningTime::Clock::now()) {
  if (limit_s <= 0) return;
  thread_ = start_thread("forebay-clock", [this] { run(); });
}

void RunningClock::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunningClock::run() {
  const auto stopped = [this] { return stopped_.load(std::memory_order_relaxed); };
  while (!wake_.wait_until(RunningTime::Clock::now() + period_, stopped)) time_.tick(RunningTime::Clock::now());
}

}  // namespace forebay

#include "hearing.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace forebay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskEvery{100};

// Of this thread: what waits for a store lies below many calls that know nothing of who waits for them.
thread_local Hearing* current_hearing = nullptr;

}  // namespace

Hearing::Hearing(std::function<void()> ask) : ask_(std::move(ask)), outer_(std::exchange(current_hearing, this)) {}

Hearing::~Hearing() { current_hearing = outer_; }

void Hearing::ask() {
  Hearing* const mine = current_hearing;
  if (mine == nullptr || !mine->ask_ || Clock::now() < mine->last_ + kAskEvery) return;
  mine->last_ = Clock::now();
  mine->ask_();
}

void Hearing::sleep_for(std::chrono::nanoseconds time) {
  for (const auto end = Clock::now() + time;;) {
    ask();
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kAskEvery));
  }
}

}  // namespace forebay

#pragma once

#include <chrono>
#include <functional>

namespace forebay {

// What a thread asks, about ten times a second, while it waits for a store: whether somebody wants it to end. `ask` may
// throw anything, which ends the wait; what waits lets it through. In force on the thread that made it, until it is
// destroyed or the thread makes another one.
class Hearing {
 public:
  explicit Hearing(std::function<void()> ask);
  ~Hearing();
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;

  // Asks, if the thread has what to ask and the last time is long enough ago. Throws what it throws.
  static void ask();
  // Sleeps, and asks meanwhile.
  static void sleep_for(std::chrono::nanoseconds time);

 private:
  std::function<void()> ask_;
  Hearing* outer_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace forebay

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include <forebay/error.hpp>

#include "file_io.hpp"

namespace forebay {

// What a thread checks, about ten times a second, while it waits for a store: whether somebody wants it to end. `check`
// may throw anything, which ends the wait; what waits lets it through. In force on the thread that made it, until it is
// destroyed or the thread makes another one.
class InterruptCheck {
 public:
  explicit InterruptCheck(std::function<void()> check);
  ~InterruptCheck();
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;

  // Makes the thread's check, if it has one and the last time is long enough ago. Throws what it throws.
  static void poll();
  // Sleeps, and polls meanwhile.
  static void sleep_for(std::chrono::nanoseconds time);

 private:
  std::function<void()> check_;
  InterruptCheck* outer_;
  std::chrono::steady_clock::time_point last_{};
};

// For how long a failing store is retried.
struct StorePatience {
  // The default of policy.watchdog_s, which limits the reads of a run. 0: four attempts within 70 ms, as for a
  // truncated file or a lack of descriptors, which more time would not change.
  std::chrono::nanoseconds limit = std::chrono::seconds(60);
  // Called once if it has failed for a second.
  void (*tell)(const std::string& line) = tell_on_stderr;

  // "[forebay] ...", at most once a minute for all threads together.
  static void tell_on_stderr(const std::string& line);
};
inline constexpr StorePatience kBriefly{.limit = {}};

// Counts failed reads of one item. For one thread.
class FailedReads {
 public:
  explicit FailedReads(const StorePatience& patience) noexcept : patience_(patience) {}

  // Waits until the next attempt: 10 ms, and twice as long each time up to a second. Throws the error, still transient,
  // once the pauses and the attempts between them, without time for which the process was stopped, exceed the limit of
  // `patience`: "(read 4 times)", "(for 60 s, read 67 times)". `name`: the name of what is read.
  void wait(std::string_view name, const SampleError& error);

 private:
  const StorePatience& patience_;
  std::uint64_t count_ = 0;
  int brief_ = 0;  // the number of brief errors in a row up to now
  bool is_told_ = false;
  std::chrono::nanoseconds taken_{0};
  std::chrono::steady_clock::time_point mark_;  // when the last pause ended
};

// Calls `read` until it throws no transient SampleError, within the limit of `patience`: a store that fails for a while
// must neither end a job that has run for days nor affect what is written. Throws the last error, still transient, and
// any other error immediately. Returns the result of `read`. `name` is the name of what is read, or a function that
// returns it. Any thread.
template <typename Name, typename Read>
std::invoke_result_t<Read&> read_patiently(const Name& name, Read&& read, const StorePatience& patience = {}) {
  for (FailedReads failed(patience);;) {
    try {
      return read();
    } catch (const SampleError& error) {
      if (!error.is_transient()) throw;
      if constexpr (std::is_invocable_v<const Name&>) {
        failed.wait(name(), error);
      } else {
        failed.wait(name, error);
      }
    }
  }
}

// read_at() for what is read once, before a run: waits for a store that fails.
void read_at_patiently(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes);

}  // namespace forebay

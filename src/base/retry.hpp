#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <forebay/error.hpp>

#include "file_io.hpp"

namespace forebay {

// How long a store that fails is asked again.
struct StorePatience {
  // As long as a run's reads wait for theirs by default (policy.watchdog_s). 0: four attempts within 70 ms, as for a
  // file that is cut short or where the process has no descriptor left, which more time would not change.
  std::chrono::nanoseconds limit = std::chrono::seconds(60);
  // Called once if it has failed for a second.
  void (*tell)(const std::string& line) = tell_on_stderr;

  // "[forebay] ..." once a minute at most, whichever thread has something to say.
  static void tell_on_stderr(const std::string& line);
};
inline constexpr StorePatience kBriefly{.limit = {}};

// The reads of one thing that failed. One thread.
class FailedReads {
 public:
  explicit FailedReads(const StorePatience& patience) noexcept : patience_(patience) {}

  // Waits until it may be read again: 10 ms, and twice as long each time up to a second. Only pauses and the attempts
  // between them count, not the time in which the process was stopped. Throws the error, still transient, once that is
  // as long as `patience` says: "(read 4 times)", "(for 60 s, read 67 times)". `name`: of what is read.
  void wait(std::string_view name, const SampleError& error);

 private:
  const StorePatience& patience_;
  std::uint64_t count_ = 0;
  int brief_ = 0;  // the last ones in a row that are asked briefly
  bool is_told_ = false;
  std::chrono::nanoseconds taken_{0};
  std::chrono::steady_clock::time_point mark_;  // when the last pause ended
};

// Calls `read` until it throws no transient SampleError, as long as `patience` says: a store that fails for a while
// must not end a job that has run for days, nor decide what is written. Throws the last error, still transient, and any
// other at once. Gives back what `read` returns. `name` is that of what is read, or a function that gives it. Any
// thread.
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

// read_at() for what is read once, before a run: it waits for a store that fails.
void read_at_patiently(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes);

}  // namespace forebay

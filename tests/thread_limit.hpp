#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include <forebay/error.hpp>

namespace forebay::testing {

// While it lives, the process is refused threads as a system at its limit does (EAGAIN). Programs that use it define
// pthread_create() themselves (thread_limit.cpp). One at a time; it also ends the program when it lives longer than a
// minute, or ten under a sanitizer: a wait for a thread that never started would last for ever.
class ThreadLimit {
 public:
  enum class Refuses { one, all };  // the call after those allowed, or that and all that follow

  ThreadLimit(int allowed, Refuses refuses);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  [[nodiscard]] static int refused() noexcept;
};

// Threads of this process that have not ended, and files that it has open.
[[nodiscard]] std::size_t count_threads();
[[nodiscard]] std::size_t count_files();

// Nothing is left of what failed: neither threads nor files.
void check_nothing_is_left(std::size_t threads, std::size_t files);

// Checks that the Error tells a user who has reached the limit what to do.
void check_refusal(const std::string& what);

// Runs it with the n-th thread refused, n = 1, 2, ... until it starts no more than n - 1. A run in which one was
// refused must throw an Error that says so and leave nothing behind; with `may_do_without` it may also go well, because
// destructors do themselves what a thread was to do. Returns the number of those runs.
template <typename Run>
int refuse_each_thread(ThreadLimit::Refuses refuses, Run&& run, bool may_do_without = false) {
  for (int allowed = 0;; ++allowed) {
    CAPTURE(allowed);
    const std::size_t threads = count_threads();
    const std::size_t files = count_files();
    std::string what;
    const ThreadLimit limit(allowed, refuses);
    try {
      run();
    } catch (const Error& error) {
      what = error.what();
    }
    if (ThreadLimit::refused() == 0) {
      CHECK(what == "");
      return allowed;
    }
    if (!what.empty() || !may_do_without) check_refusal(what);
    check_nothing_is_left(threads, files);
  }
}

}  // namespace forebay::testing

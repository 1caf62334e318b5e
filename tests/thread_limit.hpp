#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include <forebay/error.hpp>

namespace forebay::testing {

// While it exists, pthread_create() fails with EAGAIN, as on a system at its limit of threads.
// Programs that use it define pthread_create() themselves (thread_limit.cpp). One object at a time.
// It also ends the program if it exists longer than a minute (ten under a sanitizer), because a
// wait for a thread that never started would last for ever.
class ThreadLimit {
 public:
  enum class Refuses { one, all };  // only the call after those allowed, or that one and all later ones

  ThreadLimit(int allowed, Refuses refuses);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  [[nodiscard]] static int refused() noexcept;
};

// The numbers of running threads and of open files of this process.
[[nodiscard]] std::size_t count_threads();
[[nodiscard]] std::size_t count_files();

// Checks that a failure has left neither threads nor files behind.
void check_nothing_is_left(std::size_t threads, std::size_t files);

// Checks that the Error tells a user who has reached the limit what to do.
void check_refusal(const std::string& what);

// Calls run() with the n-th thread refused, for n = 1, 2, ..., until it starts fewer than n
// threads. A call in which a thread was refused must throw an Error that says so, and leave nothing
// behind. With `may_do_without` it may also succeed, because destructors do the work of a missing
// thread themselves. Returns the number of calls with a refusal.
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

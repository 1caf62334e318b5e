#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <type_traits>

#include <forebay/error.hpp>

namespace forebay {

// How often a store that fails is asked, and how long it is left alone before it is asked again.
struct StorePatience {
  int attempts = 4;
  std::chrono::milliseconds first_wait{10};
  int factor = 2;  // of each further wait to the one before
};

// Calls `read` until it throws no transient SampleError, as often as `patience` says: a store that fails for a moment
// must not end a job that has run for days, nor decide what is written. Throws the last error, still transient, with
// "(read 4 times)", and any other at once. Gives back what `read` returns. Any thread.
template <typename Read>
std::invoke_result_t<Read&> read_patiently(Read&& read, const StorePatience& patience = {}) {
  std::chrono::milliseconds wait = patience.first_wait;
  for (int attempt = 1;; ++attempt, wait *= patience.factor) {
    try {
      return read();
    } catch (const SampleError& error) {
      if (!error.is_transient()) throw;
      if (attempt == patience.attempts) {
        throw SampleError(error.what() + (" (read " + std::to_string(attempt) + " times)"),
                          SampleError::Kind::transient);
      }
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace forebay

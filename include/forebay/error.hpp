#pragma once

#include <stdexcept>
#include <string>

namespace forebay {

// Base class of everything that Forebay throws. what() says what was wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A configuration or command line that cannot be honoured (exit code 2 of the command).
class ConfigError : public Error {
 public:
  using Error::Error;
};

// One sample that cannot be served: missing, unreadable, corrupt, or refused by a limit.
// Under `on_bad = "replace"` it is quarantined and its position gets another sample; in evaluation it is left out.
class SampleError : public Error {
 public:
  enum class Kind {
    permanent,  // the bytes are bad: a retry cannot help
    transient,  // the store failed: the same read may succeed later and is retried with backoff
  };

  explicit SampleError(const std::string& reason, Kind kind = Kind::permanent) : Error(reason), kind_(kind) {}

  [[nodiscard]] bool is_transient() const noexcept { return kind_ == Kind::transient; }

 private:
  Kind kind_;
};

// No fresh batch arrived for `policy.watchdog_s`, and what() says what each worker was doing; or another rank failed to
// arrive for that long, and what() names it.
class WatchdogError : public Error {
 public:
  using Error::Error;
};

}  // namespace forebay

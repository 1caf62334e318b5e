#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <forebay/communicator.hpp>

namespace forebay::ranks {

// The kinds of exceptions that a program can distinguish, as bytes that ranks exchange.
enum class ErrorKind : char { error = 'e', config = 'c', sample = 's', watchdog = 'w' };

// An error of one rank that all ranks throw alike.
struct AgreedError {
  ErrorKind kind = ErrorKind::error;
  std::string text;

  // Throws the exception of that kind with that text.
  [[noreturn]] void raise() const;
};

// Converts an exception. REQUIRES: not null.
[[nodiscard]] AgreedError described(const std::exception_ptr& error);

// Collective and blocking: the error of the lowest rank that has one ("rank 2: ..." in a job of several), the same on
// all ranks; nothing if no rank has one.
[[nodiscard]] std::optional<AgreedError> agreed_error(Communicator& communicator,
                                                      const std::optional<AgreedError>& mine);
// The same for just a text; empty = no error.
[[nodiscard]] std::optional<std::string> agreed_failure(Communicator& communicator, std::string_view mine);

// Runs work local to this rank, after which all ranks succeed or fail together: if a rank left alone, the others would
// hang in their next collective call. Collective and blocking.
template <typename Work>
void collectively(Communicator& communicator, Work&& work) {
  if (communicator.size() == 1) return work();
  std::optional<AgreedError> mine;
  try {
    work();
  } catch (...) {
    mine = described(std::current_exception());
  }
  const auto failure = agreed_error(communicator, mine);
  if (!failure) return;
  communicator.note_failure(failure->text);
  failure->raise();
}

}  // namespace forebay::ranks

#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <forebay/communicator.hpp>

namespace forebay::ranks {

// The exceptions that a program can tell apart. As bytes they travel between ranks.
enum class ErrorKind : char { error = 'e', config = 'c', sample = 's', watchdog = 'w' };

// What all ranks throw alike for what one of them met.
struct AgreedError {
  ErrorKind kind = ErrorKind::error;
  std::string text;

  // Throws the exception of that kind with that text.
  [[noreturn]] void raise() const;
};

// What an exception is, in these words. REQUIRES: not null.
[[nodiscard]] AgreedError described(const std::exception_ptr& error);

// Collective and blocking: the error of the lowest rank that has one ("rank 2: ..." in a job of several), the same on
// all ranks; nothing when no rank has one.
[[nodiscard]] std::optional<AgreedError> agreed_error(Communicator& communicator,
                                                      const std::optional<AgreedError>& mine);
// The same for a text alone, empty = none.
[[nodiscard]] std::optional<std::string> agreed_failure(Communicator& communicator, std::string_view mine);

// Runs what only concerns this rank and then lets all ranks succeed or fail together: a rank that left alone would
// leave the others in their next collective call. Collective and blocking.
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

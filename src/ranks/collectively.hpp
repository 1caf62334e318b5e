#pragma once

#include <exception>
#include <optional>

#include <forebay/communicator.hpp>

#include "agreed_error.hpp"

namespace forebay::ranks {

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

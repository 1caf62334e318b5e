#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include <forebay/communicator.hpp>

namespace forebay {

// Polls the operation of a channel until it is complete, with short sleeps, and returns the time that took; 0 when it
// was complete already. `while_waiting` (may be empty) is called again and again, about every 50 us; it must not block,
// and may end the wait by throwing.
std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting);

}  // namespace forebay

#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "worker_status.hpp"

namespace forebay {

// Throws an Error that says which thread the system refused, why, which limits there are, and what to do. Any thread.
[[noreturn]] void refuse_thread(std::string_view name, const std::system_error& cause);

// Starts a thread called `name` that runs `body`, which must not throw; with Thread = std::jthread it may take a
// std::stop_token. Every thread of the library starts here. Throws Error when the system allows no more threads: a
// caller that has started others must then end them. Any thread.
template <typename Thread = std::thread, typename Body>
[[nodiscard]] Thread start_thread(const std::string& name, Body body) {
  try {
    if constexpr (std::is_invocable_v<Body&, std::stop_token>) {
      return Thread([name, body = std::move(body)](std::stop_token stop) mutable {
        name_this_thread(name.c_str());
        body(std::move(stop));
      });
    } else {
      return Thread([name, body = std::move(body)]() mutable {
        name_this_thread(name.c_str());
        body();
      });
    }
  } catch (const std::system_error& error) {
    refuse_thread(name, error);
  }
}

}  // namespace forebay

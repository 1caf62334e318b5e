#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace forebay {

enum class LogLevel : std::uint8_t { info, warning, error };

[[nodiscard]] constexpr std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "?";
}

// Receives the feeder's log lines in place of standard error: one line of UTF-8, without newline or prefix. Called on
// any thread, including the trainer's, one call at a time. Must not call the feeder. If it throws, the line goes to
// standard error.
using Logger = std::function<void(LogLevel level, std::string_view text)>;

}  // namespace forebay

#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace forebay {

// Two reads of one sample under way at the same time. Either exactly one of them hands bytes on, the first to have
// them, or exactly one reports the sample as bad, the last to give up. Any thread may call any member.
class Race {
 public:
  enum class Side : std::uint8_t { first, second };

  // `retry`: reads of the first side that failed before the one under way. From an emulated store the second side draws
  // the same failures, so that which samples are bad does not depend on which side is quicker.
  explicit Race(std::uint32_t retry) noexcept : retry_(retry) {}
  [[nodiscard]] std::uint32_t retry() const noexcept { return retry_; }

  [[nodiscard]] bool is_won() const {
    const std::lock_guard lock(mutex_);
    return won_;
  }

  // A side has its bytes. True for the first, which hands them on; the other drops its own.
  [[nodiscard]] bool win() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(won_, true);
  }

  // A side gives up, for this reason. Returns the first side's reason once both have given up; nothing if the other has
  // won or may still win. Call once for each side.
  [[nodiscard]] std::optional<std::string> give_up(Side side, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (side == Side::first) reason_ = std::move(reason);
    if (std::exchange(one_gave_up_, true) && !won_) return reason_;
    return std::nullopt;
  }

 private:
  const std::uint32_t retry_;
  mutable std::mutex mutex_;
  bool won_ = false;
  bool one_gave_up_ = false;
  std::string reason_;
};

}  // namespace forebay

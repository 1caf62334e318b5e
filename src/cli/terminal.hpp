#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace forebay {

// 1234567 -> "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
// 831488 -> "812 KiB"; three digits or so, binary units.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A progress line on standard error, if that is a terminal; otherwise nothing. Used by one thread. The destructor
// removes the line.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `total` may grow from call to call. Draws at most ten times a second.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::uint64_t done, std::uint64_t total, double elapsed_s) const;

  std::string what_;
  bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::milliseconds(200);  // quick work needs no bar
};

}  // namespace forebay

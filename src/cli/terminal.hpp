#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace forebay {

// 1234567 -> "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
// 831488 -> "812 KiB"; three digits or so, binary units.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A line on standard error that shows how far something is, when standard error is a terminal; else nothing at all.
// Used by one thread. The line is gone after the destructor.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `total` may grow from call to call. Draws ten times a second at most.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::uint64_t done, std::uint64_t total, double elapsed_s) const;

  std::string what_;
  bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::milliseconds(200);  // what is done by then needs no bar
};

}  // namespace forebay

#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

namespace forebay {

// The first thing that went wrong on this rank, kept until the ranks have agreed to stop. Any thread may raise;
// later failures are usually consequences of the first and are dropped.
class Failure {
 public:
  // Returns true when this was the first.
  bool raise(std::exception_ptr error) noexcept;

  [[nodiscard]] bool happened() const noexcept { return happened_.load(std::memory_order_acquire); }
  // REQUIRES: happened(). what() of the error.
  [[nodiscard]] std::string text() const;
  // REQUIRES: happened().
  [[noreturn]] void rethrow() const { std::rethrow_exception(error_); }

 private:
  std::mutex first_;
  std::exception_ptr error_;  // written once, before happened_ is released
  std::atomic<bool> happened_{false};
};

}  // namespace forebay

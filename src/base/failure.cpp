#include "failure.hpp"

#include <utility>

namespace forebay {

bool Failure::raise(std::exception_ptr error) noexcept {
  const std::scoped_lock lock(first_);
  if (happened_.load(std::memory_order_relaxed)) return false;
  error_ = std::move(error);
  happened_.store(true, std::memory_order_release);
  return true;
}

std::string Failure::text() const {
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an error of unknown type";
  }
}

}  // namespace forebay

#include "ending.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <forebay/error.hpp>

#include "thread.hpp"

namespace forebay {

// The state is shared with the thread, so that it outlives this object if the thread is left
// behind.
EndingWork::EndingWork(std::function<void()> work) : shared_(std::make_shared<Shared>()) {
  shared_->work = std::move(work);
  try {
    thread_ = start_thread("forebay-end", [shared = shared_] {
      shared->work();
      shared->has_ended.store(true, std::memory_order_release);
      shared->ended.notify_all();
    });
  } catch (const Error&) {  // no thread is to be had
    shared_->work();
    shared_->has_ended.store(true, std::memory_order_release);
  }
}

EndingWork::~EndingWork() {
  if (!thread_.joinable()) return;
  if (shared_->has_ended.load(std::memory_order_acquire)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool EndingWork::ends_by(Clock::time_point deadline) {
  return shared_->ended.wait_until(deadline, [this] { return shared_->has_ended.load(std::memory_order_acquire); });
}

// Rethrows an exception of the work, but only if it came in time.
bool ends_within(std::chrono::seconds patience, std::function<void()> work, const std::function<bool()>& is_over) {
  using Clock = EndingWork::Clock;
  const auto failure = std::make_shared<std::exception_ptr>();
  EndingWork running([failure, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      *failure = std::current_exception();
    }
  });
  const auto end = Clock::now() + patience;
  while (!running.ends_by(std::min(end, Clock::now() + std::chrono::milliseconds(50)))) {
    if (Clock::now() >= end || (is_over && is_over())) return false;
  }
  if (*failure) std::rethrow_exception(*failure);
  return true;
}

}  // namespace forebay

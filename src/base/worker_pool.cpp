#include "worker_pool.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "thread.hpp"

namespace forebay {

using Activity = WorkerStatus::Activity;

WorkerPool::WorkerPool(std::string name, Work work, unsigned wanted, unsigned most)
    : name_(std::move(name)), statuses_(most), work_(std::move(work)), wanted_(wanted) {
  threads_.reserve(most);
  try {
    while (threads_.size() < wanted) start_one();
  } catch (...) {
    stop();
    throw;
  }
}

void WorkerPool::start_one() {
  const auto thread = static_cast<unsigned>(threads_.size());
  threads_.push_back(start_thread(name_ + ' ' + std::to_string(thread), [this, thread] {
    WorkerStatus& status = statuses_[thread];
    status.thread_begins();
    status.set(Activity::idle);
    work_.body(thread, status);
    status.set(Activity::stopped);
    status.thread_ends();
  }));
}

void WorkerPool::want(unsigned threads) noexcept {
  threads = std::clamp(threads, 1U, most());
  try {
    while (threads_.size() < threads) start_one();
  } catch (const std::exception&) {  // of threads or of memory
    threads = static_cast<unsigned>(threads_.size());
  }
  wanted_.store(threads, std::memory_order_relaxed);
  gate_.notify_all();
}

bool WorkerPool::may_work(unsigned thread) {
  const auto wanted = [&] { return thread < wanted_.load(std::memory_order_relaxed); };
  const auto stopped = [&] { return stopped_.load(std::memory_order_relaxed); };
  if (!wanted()) {
    WorkerStatus& status = statuses_[thread];
    status.set(Activity::parked);
    gate_.wait([&] { return wanted() || stopped(); });
    status.set(Activity::idle);
  }
  return !stopped();
}

void WorkerPool::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  gate_.notify_all();
  work_.end();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace forebay

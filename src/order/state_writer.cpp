#include "state_writer.hpp"

#include <exception>
#include <utility>

#include "base/thread.hpp"

namespace forebay {

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StateWriter::save(std::filesystem::path file, std::string text) {
  if (!thread_.joinable()) thread_ = start_thread("forebay-save", [this] { run(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_ || waiting_->file == file; });
  waiting_ = Order{std::move(file), std::move(text)};
  lock.unlock();
  changed_.notify_all();
}

void StateWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_ && !is_writing_; });
}

std::string StateWriter::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, {});
}

void StateWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return waiting_ || is_closed_; });
    if (!waiting_) return;
    const Order order = std::move(*waiting_);
    waiting_.reset();
    is_writing_ = true;
    lock.unlock();
    changed_.notify_all();
    std::string error;
    try {
      write_(order.file, order.text);
    } catch (const std::exception& failure) {
      error = failure.what();
    } catch (...) {
      error = "cannot save the state to " + order.file.string() + ": an error of unknown type";
    }
    lock.lock();
    is_writing_ = false;
    if (error_.empty()) error_ = std::move(error);
    changed_.notify_all();
  }
}

}  // namespace forebay

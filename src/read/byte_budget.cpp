#include "byte_budget.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "base/stop_signal.hpp"

namespace forebay {
namespace {

constexpr std::size_t kSmallestBuffer = 4096;

std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t kLargestPower = std::size_t{1} << 62;
  return bytes > kLargestPower ? bytes : std::bit_ceil(std::max(bytes, kSmallestBuffer));
}

std::size_t size_class_of(std::size_t capacity) { return static_cast<std::size_t>(std::bit_width(capacity)) - 1; }

}  // namespace

std::vector<std::byte> ByteBudget::take(std::uint64_t order, std::size_t bytes) {
  wait_for_room(order, bytes);
  return buffer_of(bytes);
}

std::optional<std::vector<std::byte>> ByteBudget::try_take(std::uint64_t order, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !may_pass(order, bytes)) return std::nullopt;
    admit(bytes);
  }
  return buffer_of(bytes);
}

std::vector<std::byte> ByteBudget::buffer_of(std::size_t bytes) {
  try {
    const std::size_t capacity = capacity_for(bytes);
    std::vector<std::byte> buffer = recycled(size_class_of(capacity));
    buffer.reserve(capacity);
    buffer.resize(bytes);
    return buffer;
  } catch (...) {
    release(bytes);
    throw;
  }
}

void ByteBudget::give_back(std::vector<std::byte> buffer) noexcept {
  release(buffer.size());
  try {
    recycle(std::move(buffer));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory to remember it, so it is freed instead
  }
}

void ByteBudget::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Waiter* waiter : waiting_) waiter->turn.notify_one();
}

std::size_t ByteBudget::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

std::size_t ByteBudget::most_in_flight() const {
  const std::lock_guard lock(mutex_);
  return most_in_flight_;
}

std::size_t ByteBudget::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

bool ByteBudget::may_pass(std::uint64_t order, std::size_t bytes) const {
  const bool first = std::ranges::none_of(waiting_, [order](const Waiter* other) { return other->order < order; });
  return first && (in_flight_ == 0 || (in_flight_ <= limit_ && bytes <= limit_ - in_flight_));
}

void ByteBudget::admit(std::size_t bytes) noexcept {
  in_flight_ += bytes;
  most_in_flight_ = std::max(most_in_flight_, in_flight_);
}

void ByteBudget::wait_for_room(std::uint64_t order, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!closed_ && !may_pass(order, bytes)) {
    Waiter waiter{.order = order, .turn = {}};
    waiting_.push_back(&waiter);
    waiter.turn.wait(lock, [&] { return closed_ || may_pass(order, bytes); });
    waiting_.erase(std::ranges::find(waiting_, &waiter));
  }
  if (closed_) throw Stopped();
  admit(bytes);
  wake_first();  // the next in order may fit as well
}

void ByteBudget::wake_first() noexcept {
  const auto first = std::ranges::min_element(waiting_, {}, [](const Waiter* waiter) { return waiter->order; });
  if (first != waiting_.end()) (*first)->turn.notify_one();
}

void ByteBudget::release(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  in_flight_ -= bytes;
  wake_first();
}

std::vector<std::byte> ByteBudget::recycled(std::size_t size_class) {
  const std::lock_guard lock(mutex_);
  auto& buffers = idle_.at(size_class);
  if (buffers.empty()) return {};
  std::vector<std::byte> buffer = std::move(buffers.back());
  buffers.pop_back();
  idle_bytes_ -= buffer.capacity();
  return buffer;
}

void ByteBudget::recycle(std::vector<std::byte> buffer) {
  const std::size_t capacity = buffer.capacity();
  if (capacity == 0) return;
  const std::lock_guard lock(mutex_);
  if (capacity > limit_ - idle_bytes_) return;
  idle_.at(size_class_of(capacity)).push_back(std::move(buffer));
  idle_bytes_ += capacity;
}

}  // namespace forebay

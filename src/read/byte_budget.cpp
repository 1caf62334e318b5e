// The memory of encoded samples: a counter with a limit, the threads that wait for room, and a
// stock of buffers that came back. Readers take and grow on their threads and may block; decoders
// give back and never do. One mutex guards all; it is held for a few instructions, while buffers
// are filled and freed outside.
//
// Why nothing can deadlock: what is granted belongs to a claimed slot and will be decoded without
// waiting for anything that is not granted; waiting requests are served in the order in which their
// samples are needed; and of those that hold memory while they wait (samples with fields, which
// grow) the first may pass the limit. Memory that is not handed out is poisoned for
// AddressSanitizer, so that a decoder that reads past its sample is found although the buffer is
// larger.

#include "byte_budget.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <numeric>
#include <utility>

#include "base/poison.hpp"
#include "base/wait.hpp"

namespace forebay::read {
namespace {

// A page; smaller buffers are not worth a class of their own.
constexpr std::size_t kSmallestBuffer = 4096;

// A power of two, or a quarter, a half or three quarters more.
// Four classes per power of two waste a quarter at most. Beyond 2^62 no memory can be had anyway,
// and rounding up would overflow.
std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t kLargestPower = std::size_t{1} << 62;
  if (bytes > kLargestPower) return bytes;
  const std::size_t least = std::max(bytes, kSmallestBuffer);
  const std::size_t quarter = std::bit_floor(least) / 4;
  return (least + quarter - 1) / quarter * quarter;
}

// Exactly its size may be used of it, or, while it changes, all that it could hold.
void expose_size(const std::vector<std::byte>& buffer) noexcept {
  poison(buffer.data() + buffer.size(), buffer.capacity() - buffer.size());
}
void expose_capacity(const std::vector<std::byte>& buffer) noexcept { unpoison(buffer.data(), buffer.capacity()); }

// REQUIRES: capacity >= kSmallestBuffer
// The exponent and the next two bits: the inverse of capacity_for(), and below 256 for any 64-bit
// size.
std::size_t size_class_of(std::size_t capacity) {
  const auto power = static_cast<std::size_t>(std::bit_width(capacity)) - 1;
  return 4 * power + ((capacity >> (power - 2)) & 3U);
}

// Frees it, and its pages with it: the C library would keep what a thread frees for that thread.
// Small buffers are left to it, because the system call would cost more than they hold.
void free_all(std::vector<std::byte> buffer) noexcept {
  constexpr std::size_t kWorthACall = std::size_t{1} << 18U;
  if (buffer.capacity() < kWorthACall) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(buffer.data()) % page) % page;
  // Nobody reads again what was in them. If it fails, the memory stays with the C library.
  static_cast<void>(::madvise(buffer.data() + before, (buffer.capacity() - before) / page * page, MADV_DONTNEED));
}

}  // namespace

// A sample larger than the limit is granted when nothing else is in flight, so it may also grow.
std::vector<std::byte> ByteBudget::take(std::uint64_t order, std::size_t bytes) {
  wait_for_room(order, bytes, false, [&] { return may_pass(order, bytes); });
  std::vector<std::byte> buffer = buffer_of(bytes);
  if (bytes > limit_) {  // it is alone, so past_limit_ is free
    const std::lock_guard lock(mutex_);
    past_limit_ = buffer.data();
  }
  return buffer;
}

// past_limit_ names the one buffer that may be beyond the limit by its address, which enlarge()
// passes on when the buffer moves.
void ByteBudget::grow(std::uint64_t order, std::vector<std::byte>& buffer, std::size_t bytes) {
  const std::byte* const whose = buffer.data();
  wait_for_room(order, bytes, true, [&] {
    if (fits(bytes)) return true;
    if (!may_grow(order, whose)) return false;
    past_limit_ = whose;
    return true;
  });
  enlarge(buffer, bytes);
}

bool ByteBudget::try_grow(std::vector<std::byte>& buffer, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !fits(bytes)) return false;
    admit(bytes);
  }
  enlarge(buffer, bytes);
  return true;
}

void ByteBudget::enlarge(std::vector<std::byte>& buffer, std::size_t bytes) {
  const std::size_t size = buffer.size() + bytes;
  if (size <= buffer.capacity()) {
    expose_capacity(buffer);
    buffer.resize(size);
    return expose_size(buffer);
  }
  // Its room is already accounted for, so the larger buffer takes over all of it.
  std::vector<std::byte> larger;
  try {
    const std::size_t capacity = capacity_for(size);
    larger = recycled(size_class_of(capacity));
    larger.reserve(capacity);
  } catch (...) {
    release(bytes);
    throw;
  }
  larger.assign(buffer.begin(), buffer.end());
  larger.resize(size);
  expose_size(larger);
  buffer.swap(larger);
  {
    const std::lock_guard lock(mutex_);
    if (past_limit_ == larger.data()) past_limit_ = buffer.data();
    keep_idle(larger);
  }
  free_all(std::move(larger));
}

void ByteBudget::shrink(std::vector<std::byte>& buffer, std::size_t bytes) noexcept {
  const std::size_t less = buffer.size() - bytes;
  buffer.resize(bytes);
  expose_size(buffer);
  release(less);
}

std::optional<std::vector<std::byte>> ByteBudget::try_take(std::uint64_t order, std::size_t bytes) {
  std::vector<std::byte> idle;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !may_pass(order, bytes)) return std::nullopt;
    idle = take_idle(size_class_of(capacity_for(bytes)));  // first, or it might have to make room
    admit(bytes);
  }
  return buffer_of(bytes, std::move(idle));
}

std::optional<std::vector<std::vector<std::byte>>> ByteBudget::try_take(std::uint64_t order,
                                                                        std::span<const std::size_t> sizes) {
  std::size_t rest = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !may_pass(order, rest)) return std::nullopt;
    admit(rest);
  }
  std::vector<std::vector<std::byte>> buffers;
  try {
    buffers.reserve(sizes.size());
    for (const std::size_t size : sizes) {
      rest -= size;  // buffer_of() releases its own
      buffers.push_back(buffer_of(size));
    }
  } catch (const std::exception&) {
    release(rest);
    for (auto& buffer : buffers) give_back(std::move(buffer));
    return std::nullopt;
  }
  return buffers;
}

std::vector<std::byte> ByteBudget::buffer_of(std::size_t bytes) {
  return buffer_of(bytes, recycled(size_class_of(capacity_for(bytes))));
}

std::vector<std::byte> ByteBudget::buffer_of(std::size_t bytes, std::vector<std::byte> idle) {
  try {
    idle.reserve(capacity_for(bytes));
    idle.resize(bytes);
    expose_size(idle);
    return idle;
  } catch (...) {
    release(bytes);
    throw;
  }
}

void ByteBudget::give_back(std::vector<std::byte> buffer) noexcept {
  {
    const std::lock_guard lock(mutex_);
    take_back(buffer);
    wake_first();
  }
  free_all(std::move(buffer));
}

void ByteBudget::give_back(std::span<EncodedSample> samples) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (EncodedSample& sample : samples) take_back(sample.bytes);
    wake_first();
  }
  for (EncodedSample& sample : samples) free_all(std::exchange(sample.bytes, {}));  // what was not kept
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

std::size_t ByteBudget::idle() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

std::size_t ByteBudget::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

bool ByteBudget::is_short() const {
  const std::lock_guard lock(mutex_);
  std::size_t left = room();
  return std::ranges::any_of(waiting_, [&](const Waiter* waiter) {
    if (waiter->bytes > left) return true;
    left -= waiter->bytes;
    return false;
  });
}

std::size_t ByteBudget::room() const noexcept { return limit_ - std::min(limit_, in_flight_); }

bool ByteBudget::fits(std::size_t bytes) const noexcept { return bytes == 0 ? in_flight_ <= limit_ : bytes <= room(); }

// Those that grow go before those that take, whatever their order, because they hold memory that
// the others wait for.
bool ByteBudget::is_first(std::uint64_t order, bool grows) const {
  return std::ranges::none_of(
      waiting_, [&](const Waiter* other) { return other->grows == grows ? other->order < order : other->grows; });
}

bool ByteBudget::may_pass(std::uint64_t order, std::size_t bytes) const {
  return is_first(order, false) && (in_flight_ == 0 || fits(bytes));
}

bool ByteBudget::may_grow(std::uint64_t order, const std::byte* buffer) const {
  return past_limit_ == nullptr ? is_first(order, true) : past_limit_ == buffer;
}

void ByteBudget::admit(std::size_t bytes) noexcept {
  in_flight_ += bytes;
  most_in_flight_ = std::max(most_in_flight_, in_flight_);
  // Idle buffers make room for used ones, large ones first.
  for (auto buffers = idle_.rbegin(); idle_bytes_ > room() && buffers != idle_.rend(); ++buffers) {
    for (; idle_bytes_ > room() && !buffers->empty(); buffers->pop_back()) {
      idle_bytes_ -= buffers->back().capacity();
      free_all(std::move(buffers->back()));
    }
  }
}

// The shortage hook is called after this thread is in waiting_, and without the lock, because it
// gives buffers back. So a thread that keeps samples sees either the waiter or the room that it
// needs (coalesced_reads.hpp).
template <typename MayPass>
void ByteBudget::wait_for_room(std::uint64_t order, std::size_t bytes, bool grows, MayPass&& may_pass) {
  std::unique_lock lock(mutex_);
  if (!closed_ && !may_pass()) {
    Waiter waiter{.order = order, .bytes = bytes, .grows = grows, .turn = {}};
    waiting_.push_back(&waiter);
    if (shortage_) {
      lock.unlock();
      shortage_();
      lock.lock();
    }
    waiter.turn.wait(lock, [&] { return closed_ || may_pass(); });
    waiting_.erase(std::ranges::find(waiting_, &waiter));
  }
  if (closed_) throw Stopped();
  admit(bytes);
  wake_first();  // the next in order may fit as well
}

// Only the one whose turn it is: it wakes the next itself once it has been admitted.
void ByteBudget::wake_first() noexcept {
  const auto turn_of = [](const Waiter* waiter) { return std::pair(!waiter->grows, waiter->order); };
  const auto first = std::ranges::min_element(waiting_, {}, turn_of);
  if (first != waiting_.end()) (*first)->turn.notify_one();
}

void ByteBudget::release(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  in_flight_ -= bytes;
  wake_first();
}

void ByteBudget::take_back(std::vector<std::byte>& buffer) noexcept {
  in_flight_ -= buffer.size();
  if (buffer.data() == past_limit_) past_limit_ = nullptr;
  keep_idle(buffer);
}

std::vector<std::byte> ByteBudget::recycled(std::size_t size_class) {
  const std::lock_guard lock(mutex_);
  return take_idle(size_class);
}

// A buffer of exactly its class: a larger one would waste what others need, a smaller one would be
// grown at once.
std::vector<std::byte> ByteBudget::take_idle(std::size_t size_class) noexcept {
  auto& buffers = idle_[size_class];
  if (buffers.empty()) return {};
  std::vector<std::byte> buffer = std::move(buffers.back());
  buffers.pop_back();
  idle_bytes_ -= buffer.capacity();
  expose_capacity(buffer);
  return buffer;
}

void ByteBudget::keep_idle(std::vector<std::byte>& buffer) noexcept {
  const std::size_t capacity = buffer.capacity();
  if (capacity < kSmallestBuffer || idle_bytes_ + capacity > room()) return;
  try {
    const std::byte* const begin = buffer.data();
    idle_[size_class_of(capacity)].push_back(std::move(buffer));
    idle_bytes_ += capacity;
    poison(begin, capacity);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory to remember it, so it is freed instead
  }
}

}  // namespace forebay::read

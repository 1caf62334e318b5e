// The memory of encoded samples: a counter with a limit, the threads that wait for room, and a
// stock of returned buffers. Readers take and grow buffers on their threads and may block; decoders
// return them and never block. One mutex guards everything. It is held briefly: buffers are filled
// outside it, and freed outside it unless they are idle ones that must make room.
//
// Why nothing can deadlock: what is granted belongs to a claimed slot and will be decoded without
// waiting for anything that is not granted; waiting requests are served in the order in which their
// samples are needed; and of the threads that hold memory while they wait (for samples with fields,
// which grow) the first may pass the limit.
//
// Memory that is not handed out is poisoned for AddressSanitizer, so that a decoder that reads past
// its sample is detected even if the buffer is larger.

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

// One page: smaller buffers are not worth a class of their own.
constexpr std::size_t kSmallestBuffer = 4096;

// The capacity of the buffer for so many bytes: a power of two, or a quarter, a half or three
// quarters more. Four classes per power of two waste at most a quarter. Beyond 2^62 no memory can
// be had anyway, and rounding up would overflow.
std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t kLargestPower = std::size_t{1} << 62;
  if (bytes > kLargestPower) return bytes;
  const std::size_t least = std::max(bytes, kSmallestBuffer);
  const std::size_t quarter = std::bit_floor(least) / 4;
  return (least + quarter - 1) / quarter * quarter;
}

// For AddressSanitizer: exactly the buffer's size is accessible or, while the size changes, its
// whole capacity.
void expose_size(const std::vector<std::byte>& buffer) noexcept {
  poison(buffer.data() + buffer.size(), buffer.capacity() - buffer.size());
}
void expose_capacity(const std::vector<std::byte>& buffer) noexcept { unpoison(buffer.data(), buffer.capacity()); }

// The number of the size class with this capacity: the exponent and the next two bits, which
// inverts capacity_for(). Below 256 for any 64-bit size. REQUIRES: capacity >= kSmallestBuffer.
std::size_t size_class_of(std::size_t capacity) {
  const auto power = static_cast<std::size_t>(std::bit_width(capacity)) - 1;
  return 4 * power + ((capacity >> (power - 2)) & 3U);
}

// Frees a buffer and returns its pages to the system, because the C library would keep the memory
// for the thread that frees it. For small buffers the system call would cost more than it gains.
void free_all(std::vector<std::byte> buffer) noexcept {
  constexpr std::size_t kWorthACall = std::size_t{1} << 18U;
  if (buffer.capacity() < kWorthACall) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(buffer.data()) % page) % page;
  // The contents are not needed again. If the call fails, the memory stays with the C library.
  static_cast<void>(::madvise(buffer.data() + before, (buffer.capacity() - before) / page * page, MADV_DONTNEED));
}

}  // namespace

// A sample larger than the limit is granted when nothing else is in flight, so it may also grow
// past the limit.
std::vector<std::byte> ByteBudget::take(std::uint64_t order, std::size_t bytes) {
  wait_for_room(order, bytes, false, [&] { return may_pass(order, bytes); });
  std::vector<std::byte> buffer = buffer_of(bytes);
  if (bytes > limit_) {  // nothing else is in flight, so past_limit_ is not in use
    const std::lock_guard lock(mutex_);
    past_limit_ = buffer.data();
  }
  return buffer;
}

// past_limit_ is the address of the one buffer that may exceed the limit. enlarge() updates it when
// the buffer moves.
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
  // The added bytes have already been admitted, so the larger buffer needs no further room.
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
    idle = take_idle(size_class_of(capacity_for(bytes)));  // before admit(), which might free it to make room
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
      rest -= size;  // if buffer_of() throws, it releases its own share
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
  for (EncodedSample& sample : samples) free_all(std::exchange(sample.bytes, {}));  // those that were not kept idle
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

// Threads that grow go before those that take, whatever their order, because they hold memory that
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
  // Frees idle buffers, large ones first, to make room for those in use.
  for (auto buffers = idle_.rbegin(); idle_bytes_ > room() && buffers != idle_.rend(); ++buffers) {
    for (; idle_bytes_ > room() && !buffers->empty(); buffers->pop_back()) {
      idle_bytes_ -= buffers->back().capacity();
      free_all(std::move(buffers->back()));
    }
  }
}

// The shortage hook is called once this thread is in waiting_, and without the lock, because it
// gives buffers back. A thread that keeps a sample checks for waiters afterwards. So either it sees
// this thread, or the hook sees that sample (coalesced_reads.hpp).
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

// Wakes only the thread whose turn it is, which wakes the next once it has been admitted.
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

// Takes only a buffer of exactly this class: a larger one would waste memory that others need, and
// a smaller one would have to grow immediately.
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

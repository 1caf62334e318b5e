#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "requests.hpp"

namespace forebay::read {

// Bounds the encoded bytes between the store and the decoders, and owns their buffers.
//
// Among waiting requests the one with the lowest order is granted first, and nothing later is
// granted before it; a later one may pass an earlier one that has not asked yet. A sample larger
// than the whole budget is admitted when nothing else is in flight. Whatever take() grants can be
// decoded without waiting for anything that is not granted, because its slot was claimed before.
// try_take() of several is for samples that can be dropped (CoalescedReads). So the bytes always
// come back.
//
// A sample of several parts grows its buffer while it is read, because their sizes are not known
// beforehand. It holds memory while it waits for more, so two of them could wait for each other;
// therefore one at a time, the earliest that waits, may grow past the limit. It will be read and
// decoded without waiting for another, and then gives everything back. Growing takes precedence
// over taking, because a thread that grows holds memory that others wait for.
//
// Returned buffers are kept for later samples as far as the limit has room beside what is in
// flight, and freed otherwise: a run holds no more than the limit, or one sample that is larger. (A
// reused buffer may be up to a quarter larger than its sample needs.)
//
// Any thread may call; readers may block.
class ByteBudget final : public BufferReturn {
 public:
  explicit ByteBudget(std::size_t bytes) noexcept : limit_(bytes) {}

  // A buffer of exactly `bytes` bytes, their contents unspecified. Waits for room; throws Stopped when closed, and
  // std::bad_alloc or std::length_error, with nothing taken, when there is no memory.
  [[nodiscard]] std::vector<std::byte> take(std::uint64_t order, std::size_t bytes);

  // The same without waiting: nothing if take() would wait or throw Stopped.
  [[nodiscard]] std::optional<std::vector<std::byte>> try_take(std::uint64_t order, std::size_t bytes);

  // Enlarges a buffer of take() by `bytes`; its contents stay. Waits and throws like take(); if it throws, the buffer
  // is unchanged.
  void grow(std::uint64_t order, std::vector<std::byte>& buffer, std::size_t bytes);
  // The same without waiting; false, with nothing changed, if grow() would wait, throw Stopped, or pass the limit.
  [[nodiscard]] bool try_grow(std::vector<std::byte>& buffer, std::size_t bytes);
  // Shrinks a buffer to its first `bytes`. REQUIRES: bytes <= buffer.size().
  void shrink(std::vector<std::byte>& buffer, std::size_t bytes) noexcept;

  // The same for several buffers, all or none. Also nothing if there is no memory.
  [[nodiscard]] std::optional<std::vector<std::vector<std::byte>>> try_take(std::uint64_t order,
                                                                            std::span<const std::size_t> sizes);

  // Sets a hook for threads that have to wait in take(); they call it once they count as waiting(), and it may give
  // buffers back. REQUIRES: no thread is in take().
  void on_shortage(std::function<void()> hook) { shortage_ = std::move(hook); }

  void give_back(std::vector<std::byte> buffer) noexcept override;
  void give_back(std::span<EncodedSample> samples) noexcept override;

  // Makes every present and future take() throw Stopped. May be called again.
  void close() noexcept;

  [[nodiscard]] std::size_t in_flight() const;
  // The most bytes ever in flight: above the limit only for a sample that was alone, or one that grew.
  [[nodiscard]] std::size_t most_in_flight() const;
  // Bytes of memory kept for later samples; together with what is in flight at most the limit.
  [[nodiscard]] std::size_t idle() const;
  // Requests that are waiting now.
  [[nodiscard]] std::size_t waiting() const;
  // Whether the waiting requests do not all fit beside what is in flight.
  [[nodiscard]] bool is_short() const;

 private:
  // A thread in take(). Each has its own condition variable, so that only the thread whose turn it is wakes up.
  struct Waiter {
    std::uint64_t order;
    std::size_t bytes;
    bool grows;
    std::condition_variable turn;
  };

  // With mutex_ held:
  [[nodiscard]] std::size_t room() const noexcept;  // the part of the limit that is not in flight
  [[nodiscard]] bool fits(std::size_t bytes) const noexcept;
  [[nodiscard]] bool is_first(std::uint64_t order, bool grows) const;
  [[nodiscard]] bool may_pass(std::uint64_t order, std::size_t bytes) const;
  [[nodiscard]] bool may_grow(std::uint64_t order, const std::byte* buffer) const;  // past the limit
  void admit(std::size_t bytes) noexcept;
  void wake_first() noexcept;
  [[nodiscard]] std::vector<std::byte> take_idle(std::size_t size_class) noexcept;
  // Leaves it to its owner, who frees it, if there is no room for it.
  void keep_idle(std::vector<std::byte>& buffer) noexcept;
  void take_back(std::vector<std::byte>& buffer) noexcept;

  template <typename MayPass>
  void wait_for_room(std::uint64_t order, std::size_t bytes, bool grows, MayPass&& may_pass);
  void enlarge(std::vector<std::byte>& buffer, std::size_t bytes);
  // REQUIRES: room was taken. Releases it if there is no memory.
  [[nodiscard]] std::vector<std::byte> buffer_of(std::size_t bytes);
  // The same, with an idle buffer of its size class, or an empty one.
  [[nodiscard]] std::vector<std::byte> buffer_of(std::size_t bytes, std::vector<std::byte> idle);
  void release(std::size_t bytes) noexcept;
  [[nodiscard]] std::vector<std::byte> recycled(std::size_t size_class);

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t in_flight_ = 0;
  std::size_t most_in_flight_ = 0;
  std::vector<Waiter*> waiting_;  // unsorted; at most one per reader thread
  bool closed_ = false;
  // The only buffer that may exceed the limit, by its address. It has exceeded it, or may have.
  const std::byte* past_limit_ = nullptr;
  std::function<void()> shortage_;

  // Idle buffers by size class, four classes per power of two, so that a small sample never
  // occupies a large buffer.
  std::array<std::vector<std::vector<std::byte>>, 256> idle_;
  std::size_t idle_bytes_ = 0;  // their capacities; at most room()
};

}  // namespace forebay::read

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

namespace forebay {

// Bounds the encoded bytes between the store and the decoders, and owns their buffers.
//
// Among waiting requests the one with the lowest order is granted first, and nothing later is granted before it; a
// later one may pass an earlier one that has not asked yet. A sample larger than the whole budget is admitted when
// nothing else is in flight. Whatever is granted can be decoded without waiting for anything that is not (its slot was
// claimed before), so the bytes always come back.
//
// A sample of several parts grows its buffer while it is read, because nobody knows beforehand how large they are. It
// holds memory while it waits for more, so two of them could wait for each other; therefore one at a time may grow past
// the limit, the earliest that waits. It will be read and decoded without waiting for another, and then it gives all
// back. Growing goes before taking: whoever grows has memory that others wait for.
//
// Any thread may call; readers may block.
class ByteBudget final : public BufferReturn {
 public:
  explicit ByteBudget(std::size_t bytes) noexcept : limit_(bytes) {}

  // A buffer of exactly `bytes` bytes, their contents unspecified. Waits for room; throws Stopped when closed, and
  // std::bad_alloc or std::length_error, with nothing taken, when there is no memory.
  [[nodiscard]] std::vector<std::byte> take(std::uint64_t order, std::size_t bytes);

  // The same without waiting: nothing when take() would wait, or throw Stopped.
  [[nodiscard]] std::optional<std::vector<std::byte>> try_take(std::uint64_t order, std::size_t bytes);

  // Makes a buffer of take() so much larger; what is in it stays. Waits and throws as take() does; then the buffer is
  // as it was.
  void grow(std::uint64_t order, std::vector<std::byte>& buffer, std::size_t bytes);
  // The same without waiting; false, and nothing changed, when grow() would wait or throw Stopped, or pass the limit.
  [[nodiscard]] bool try_grow(std::vector<std::byte>& buffer, std::size_t bytes);
  // Makes it smaller, to its first `bytes`. REQUIRES: bytes <= buffer.size().
  void shrink(std::vector<std::byte>& buffer, std::size_t bytes) noexcept;

  // The same for several buffers, all or none. Nothing also when there is no memory.
  [[nodiscard]] std::optional<std::vector<std::vector<std::byte>>> try_take(std::uint64_t order,
                                                                            std::span<const std::size_t> sizes);

  // Called by a thread that has to wait in take(), once it counts as waiting(): may give buffers back. Set it while
  // nobody takes.
  void on_shortage(std::function<void()> hook) { shortage_ = std::move(hook); }

  void give_back(std::vector<std::byte> buffer) noexcept override;

  // Makes every present and future take() throw Stopped. May be called again.
  void close() noexcept;

  [[nodiscard]] std::size_t in_flight() const;
  // The most that was in flight at one time: above the limit only for a sample that was alone, or one that grew.
  [[nodiscard]] std::size_t most_in_flight() const;
  // Requests that wait now.
  [[nodiscard]] std::size_t waiting() const;
  // Whether they do not all fit beside what is in flight.
  [[nodiscard]] bool is_short() const;

 private:
  // A thread in take(). Each has its own condition variable, so that only the thread whose turn it is wakes up.
  struct Waiter {
    std::uint64_t order;
    std::size_t bytes;
    bool grows;
    std::condition_variable turn;
  };

  // REQUIRES of these: mutex_ held
  [[nodiscard]] bool fits(std::size_t bytes) const noexcept;
  [[nodiscard]] bool is_first(std::uint64_t order, bool grows) const;
  [[nodiscard]] bool may_pass(std::uint64_t order, std::size_t bytes) const;
  [[nodiscard]] bool may_grow(std::uint64_t order, const std::byte* buffer) const;  // past the limit
  void admit(std::size_t bytes) noexcept;                                           // REQUIRES: mutex_ held
  template <typename MayPass>
  void wait_for_room(std::uint64_t order, std::size_t bytes, bool grows, MayPass&& may_pass);
  void enlarge(std::vector<std::byte>& buffer, std::size_t bytes);
  void wake_first() noexcept;  // REQUIRES: mutex_ held
  // REQUIRES: room was taken. Releases it if there is no memory.
  [[nodiscard]] std::vector<std::byte> buffer_of(std::size_t bytes);
  void release(std::size_t bytes, const std::byte* whole_buffer = nullptr) noexcept;
  [[nodiscard]] std::vector<std::byte> recycled(std::size_t size_class);
  void recycle(std::vector<std::byte> buffer);

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t in_flight_ = 0;
  std::size_t most_in_flight_ = 0;
  std::vector<Waiter*> waiting_;  // unsorted; at most one per reader thread
  bool closed_ = false;
  // The buffer because of which more than the limit is in flight, or may have been; it alone grows past it.
  const std::byte* past_limit_ = nullptr;
  std::function<void()> shortage_;

  // Idle buffers by the power of two that is their capacity, so that a small sample never occupies a large buffer.
  std::array<std::vector<std::vector<std::byte>>, 64> idle_;
  std::size_t idle_bytes_ = 0;  // of capacity; at most limit_
};

}  // namespace forebay

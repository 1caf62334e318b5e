#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "choices.hpp"
#include "plain_memory.hpp"

namespace forebay::model {

// Atomic locations as C++20 lets threads see them, operationally. Each location keeps all values that were stored to
// it, in its modification order. A load returns any of them that coherence, happens-before and the single order of
// seq_cst operations permit; a store may be placed before others that its thread does not know of; a read-modify-write
// follows directly what it reads. A release hands the thread's knowledge on with the value, read-modify-writes hand on
// what the value before them did, and an acquire takes it.
//
// What is permitted beyond this: a load that returns a value whose store comes later in program order (load buffering),
// and values out of thin air. No processor does the second; compilers and some processors do the first, to relaxed
// operations that do not depend on each other.
class WeakMemory {
 public:
  struct Location {
    std::uintptr_t address = 0;
    std::size_t number = 0;
    std::size_t size = 0;
    std::size_t values = 0;  // of `history`, which keeps its memory
    struct Value {
      std::uint32_t place;  // in the modification order
      bool is_followed;     // by a read-modify-write that read it: nothing comes between
      bool hands_on;
      std::uint64_t value;
      Knowledge knowledge;
    };
    std::vector<Value> history;
  };

  // What an operation saw and did, for traces.
  struct Seen {
    std::uint64_t value;
    std::size_t older;  // values of the location that are newer than the one read, or placed after the one stored
  };

  // Nothing was stored yet, and nobody knows of anything.
  void reset() noexcept;
  // The location, with the value that the memory holds when it is first asked for; null when there are too many.
  Location* location(std::uintptr_t address, std::size_t size) noexcept;
  // Memory that was given back: what comes to be there is another location.
  void forget(std::uintptr_t begin, std::size_t bytes) noexcept;

  Seen load(std::size_t thread, Location& at, std::memory_order order, Choices& choices);
  Seen store(std::size_t thread, Location& at, std::uint64_t value, std::memory_order order, Choices& choices);
  // Stores change(read) directly after the value read.
  template <typename Change>
  Seen modify(std::size_t thread, Location& at, std::memory_order order, Choices& choices, const Change& change) {
    const std::size_t read =
        choose(thread, at, order, choices, [&](const Location& of, std::size_t i) { return has_room_after(of, i); });
    const Seen seen{at.history[read].value, at.values - 1 - read};
    change_value(thread, at, read, change(seen.value), order);
    return seen;
  }
  // As modify() where the value read is `expected`, else as load() with the other order.
  Seen compare_exchange(std::size_t thread, Location& at, std::uint64_t expected, std::uint64_t desired,
                        std::memory_order order, std::memory_order if_not, Choices& choices);
  void fence(std::size_t thread, std::memory_order order) noexcept;
  // What makes a fence seq_cst: nothing older is read after one than was known before another. No happens-before.
  void order_with_all(std::size_t thread) noexcept;

  // What a waiting thread may find in the word: any value that is not older than what it knows and what those knew
  // that have woken waiters of the word before (the kernel orders these).
  Seen peek(std::size_t thread, Location& at, std::uint32_t least, Choices& choices);

  [[nodiscard]] Knowledge& knowledge(std::size_t thread) noexcept { return threads_[thread].now; }
  // From now on a thread does what others need not know of.
  void advance(std::size_t thread) noexcept { ++threads_[thread].now.clock[thread]; }

 private:
  struct Thread {
    Knowledge now;
    Knowledge pending;   // read by relaxed loads, for a fence that acquires
    Knowledge released;  // as of the last fence that released, for relaxed stores
    bool has_pending = false;
    bool has_released = false;
    // Per location: the place of the value whose knowledge was last taken. A loop looks at one value many times.
    std::array<std::uint32_t, kMostLocations> acquired{};
    std::array<std::uint32_t, kMostLocations> noted{};
  };

  static constexpr std::uint32_t kGap = 4096;
  static constexpr std::size_t kTable = 512;

  // The index of the value that is read: the latest, or as chosen an older one that may be read and that `fits`.
  template <typename Fits>
  std::size_t choose(std::size_t thread, const Location& at, std::memory_order order, Choices& choices,
                     const Fits& fits) const {
    const std::uint32_t least = least_place(thread, at, order);
    std::array<std::size_t, 16> options{};
    std::size_t count = 0;
    for (std::size_t i = at.values; i-- > 0 && at.history[i].place >= least && count < options.size();) {
      if (fits(at, i)) options[count++] = i;
    }
    return options[choices.pick(static_cast<unsigned>(count))];
  }
  [[nodiscard]] std::uint32_t least_place(std::size_t thread, const Location& at, std::memory_order order) const;
  [[nodiscard]] static bool has_room_after(const Location& at, std::size_t index) noexcept;
  void note_read(std::size_t thread, const Location& at, std::size_t index, std::memory_order order);
  void change_value(std::size_t thread, Location& at, std::size_t read, std::uint64_t value, std::memory_order order);
  // Puts a value behind the one at `index`; returns it.
  Location::Value& insert(Location& at, std::size_t index, std::uint64_t value);
  void release(std::size_t thread, const Location& at, Location::Value& value, std::memory_order order);

  std::array<Thread, kMostThreads> threads_;
  Knowledge sequential_;  // of the seq_cst operations before, per location; of the seq_cst fences, all
  std::array<Location, kMostLocations> locations_;
  std::size_t used_ = 0;
  std::array<std::uint16_t, kTable> table_{};  // number + 1
};

}  // namespace forebay::model

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

// Atomic locations as C++20 lets threads see them, as an operational model. Each location keeps all
// values that were stored to it, in modification order. A load returns any of them that coherence,
// happens-before and the single total order of seq_cst operations permit. A store may be placed
// before others that its thread does not know about. A read-modify-write directly follows the value
// that it reads. A release attaches the thread's knowledge to the value, a read-modify-write passes
// on what is attached to the value before it, and an acquire takes it.
//
// C++ also permits two things that are not modelled: a load that returns a value whose store comes
// later in program order (load buffering), and values out of thin air. No processor does the
// second. Compilers and some processors do the first, for relaxed operations that do not depend on
// each other.
class WeakMemory {
 public:
  struct Location {
    std::uintptr_t address = 0;
    std::size_t number = 0;
    std::size_t size = 0;
    std::size_t values = 0;  // in use; `history` keeps its memory
    struct Value {
      std::uint32_t place;  // in the modification order
      bool is_followed;     // by a read-modify-write that read it: nothing fits in between
      bool hands_on;
      std::uint64_t value;
      Knowledge knowledge;
    };
    std::vector<Value> history;
  };

  // What an operation saw and did, for the trace.
  struct Seen {
    std::uint64_t value;
    std::size_t older;  // how many values are newer than the one read or stored
  };

  // Starts over: nothing has been stored, and no thread knows anything.
  void reset() noexcept;
  // The location. Its first value is what the memory holds when it is first asked for. Null if
  // there are too many locations, or if it is used with another size.
  Location* location(std::uintptr_t address, std::size_t size) noexcept;
  // The memory was freed: whatever is allocated there is another location.
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
  // Like modify() if the value read is `expected`, else like load() with the order `if_not`.
  Seen compare_exchange(std::size_t thread, Location& at, std::uint64_t expected, std::uint64_t desired,
                        std::memory_order order, std::memory_order if_not, Choices& choices);
  void fence(std::size_t thread, std::memory_order order) noexcept;
  // What makes a fence seq_cst: after it, a thread reads nothing older than what was known before
  // another such fence. Does not add happens-before.
  void order_with_all(std::size_t thread) noexcept;

  // What a waiting thread may find in the word: any value that is not older than what the thread
  // itself knows, or what earlier wakers of the word's waiters knew (the kernel orders these).
  Seen peek(std::size_t thread, Location& at, std::uint32_t least, Choices& choices);

  [[nodiscard]] Knowledge& knowledge(std::size_t thread) noexcept { return threads_[thread].now; }
  // What the thread does from now on is not covered by the knowledge that it has handed on.
  void advance(std::size_t thread) noexcept { ++threads_[thread].now.clock[thread]; }

 private:
  struct Thread {
    Knowledge now;
    Knowledge pending;   // from relaxed loads, for a later acquire fence
    Knowledge released;  // as of the last release fence, for relaxed stores
    bool has_pending = false;
    bool has_released = false;
    // Per location: the place of the value whose knowledge was last taken. Loops read one value
    // many times.
    std::array<std::uint32_t, kMostLocations> acquired{};
    std::array<std::uint32_t, kMostLocations> noted{};
  };

  static constexpr std::uint32_t kGap = 4096;
  static constexpr std::size_t kTable = 512;

  // The index of the value to read: the latest, or, if so chosen, an older one that may be read and
  // that `fits`.
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
  // Inserts a value after the one at `index`, and returns it.
  Location::Value& insert(Location& at, std::size_t index, std::uint64_t value);
  void release(std::size_t thread, const Location& at, Location::Value& value, std::memory_order order);

  std::array<Thread, kMostThreads> threads_;
  Knowledge sequential_;  // what seq_cst operations saw, and seq_cst fences knew
  std::array<Location, kMostLocations> locations_;
  std::size_t used_ = 0;
  std::array<std::uint16_t, kTable> table_{};  // number + 1; 0 = free
};

}  // namespace forebay::model

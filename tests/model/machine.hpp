#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "choices.hpp"
#include "fibers.hpp"
#include "plain_memory.hpp"
#include "sites.hpp"
#include "weak_memory.hpp"

namespace forebay::model {

// Runs executions of a scenario, one after the other. At each operation that other threads can
// observe, it asks `choices` which thread runs next and what a load returns.
class Machine {
 public:
  // Something that a thread did, for the trace.
  struct Event {
    std::size_t thread = 0;
    const char* what = "";
    const void* code = nullptr;
    std::size_t location = 0;
    std::uint64_t value = 0;
    std::size_t older = 0;
    std::memory_order order = std::memory_order_relaxed;
  };

  explicit Machine(Sites& sites);

  // Returns what went wrong, or "" if nothing did.
  std::string run(void (*scenario)(), Choices& choices);
  // The last `most` operations of the last execution, one per line.
  [[nodiscard]] std::string trace(std::size_t most) const;
  // What the last execution passed to outcome().
  [[nodiscard]] const std::string& outcome() const noexcept { return outcome_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  // The machine that is running a scenario, for code that the scenario calls; null outside of one.
  [[nodiscard]] static Machine* running() noexcept { return running_; }

  // --- Called by the scenario's code, on the thread that is running ---
  void access(const void* address, std::size_t bytes, bool is_write, const void* code);
  std::uint64_t load(const volatile void* address, std::size_t bytes, int order, const void* code);
  void store(volatile void* address, std::size_t bytes, std::uint64_t value, int order, const void* code);
  template <typename Change>
  std::uint64_t modify(volatile void* address, std::size_t bytes, int order, const void* code, const Change& change) {
    WeakMemory::Location& at = arrive(address, bytes);
    const std::memory_order effective = order_at(code, order, Sites::Kind::modify);
    const WeakMemory::Seen seen = memory_.modify(current_, at, effective, *choices_, change);
    ++changes_;
    note("modify", code, at.number + 1, change(seen.value), seen.older, effective);
    return seen.value;
  }
  // Returns the previous value.
  std::uint64_t compare_exchange(volatile void* address, std::size_t bytes, std::uint64_t expected,
                                 std::uint64_t desired, int order, int if_not, const void* code);
  void fence(int order, const void* code);
  // Like the system call. A negative result is a negated errno.
  long futex(const void* word, int operation, std::uint32_t value, std::optional<std::int64_t> timeout_ns);
  void yield();
  std::int64_t now() noexcept { return clock_ += kTick; }
  std::int64_t clock() const noexcept { return clock_; }
  void lock(const void* mutex);
  void unlock(const void* mutex);
  void allocated(const void* address, std::size_t bytes) noexcept;

  // --- Called by scenarios ---
  void spawn(const char* name, std::function<void()> body);
  void join();
  void until_quiet();
  void push(const void* queue, std::uint64_t element);
  bool pop(const void* queue, std::uint64_t& element);
  void close(const void* queue);
  void end_as(std::string outcome) { outcome_ = std::move(outcome); }
  [[noreturn]] void fail(const std::string& what);

 private:
  enum class State : std::uint8_t { ready, parked, locking, popping, joining, quiet, ended };
  struct Thread {
    std::string name;
    std::function<void()> body;
    State state = State::ready;
    const void* waits_for = nullptr;
    std::optional<std::int64_t> deadline = std::nullopt;
    bool has_timed_out = false;
    std::array<std::uint64_t, kMostLocations> looked{};  // changes_ when it last read that location
  };
  struct Mutex {
    const void* address;
    bool is_held;
    Knowledge knowledge;
  };
  struct Element {
    std::uint64_t value;
    Knowledge knowledge;
  };
  struct Elements {
    const void* queue;
    std::vector<Element> elements;
    bool is_closed;
  };
  struct Word {  // from which threads have been woken
    const void* address;
    std::uint32_t least;
  };

  static constexpr std::int64_t kTick = 6000;  // ns that reading the clock takes
  static constexpr std::uint64_t kMostSteps = 20000;

  // Other threads may run before the next operation.
  void point();
  // The running thread cannot go on.
  void block(State state, const void* waits_for);
  void run_other(bool may_stay);
  void switch_to(std::size_t thread);
  bool let_time_pass();
  [[nodiscard]] std::string stuck() const;
  void finish();
  WeakMemory::Location& arrive(const volatile void* address, std::size_t bytes);
  WeakMemory::Location& locate(const volatile void* address, std::size_t bytes);
  std::memory_order order_at(const void* code, int order, Sites::Kind kind);
  void wake(State state, const void* waits_for, std::size_t most);
  void note(const char* what, const void* code, std::size_t location, std::uint64_t value, std::size_t older,
            std::memory_order order) {
    events_.push_back({current_, what, code, location, value, older, order});
  }
  Mutex& mutex(const void* address);
  Elements& elements(const void* queue);
  Word& word(const void* address);

  static Machine* running_;

  Sites& sites_;
  Choices* choices_ = nullptr;
  void (*scenario_)() = nullptr;
  WeakMemory memory_;
  PlainMemory plain_;
  std::vector<Thread> threads_;
  std::size_t used_ = 0;
  std::size_t current_ = 0;
  std::int64_t clock_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t changes_ = 1;
  std::vector<Mutex> mutexes_;
  std::vector<Elements> queues_;
  std::vector<Word> words_;
  std::vector<Event> events_;
  std::string failure_;
  std::string outcome_;
  const void* errno_ = nullptr;
  Fibers fibers_;
};

}  // namespace forebay::model

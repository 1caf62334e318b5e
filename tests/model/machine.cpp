// Runs a scenario's threads one operation at a time: which runs next, and what each operation does.
#include "machine.hpp"

#include <linux/futex.h>
#include <cerrno>
#include <exception>
#include <utility>

namespace forebay::model {

Machine* Machine::running_ = nullptr;

Machine::Machine(Sites& sites)
    : sites_(sites), threads_(kMostThreads), fibers_(kMostThreads, [this](std::size_t) { finish(); }) {}

std::string Machine::run(void (*scenario)(), Choices& choices) {
  choices_ = &choices;
  memory_.reset();
  plain_.reset();
  mutexes_.clear();
  queues_.clear();
  words_.clear();
  events_.clear();
  failure_.clear();
  clock_ = 1'000'000'000;
  steps_ = 0;
  changes_ = 1;
  used_ = 1;
  current_ = 0;
  threads_[0] = {.name = "first", .body = scenario};
  errno_ = &errno;
  running_ = this;
  fibers_.enter(0);
  running_ = nullptr;
  if (!failure_.empty()) fibers_.abandon();
  return failure_;
}

// The life of a thread: runs its body, then hands over to whichever thread runs next.
void Machine::finish() {
  Thread& self = threads_[current_];
  try {
    self.body();
  } catch (const std::exception& error) {
    fail(self.name + " ends with an exception: " + error.what());
  } catch (...) {
    fail(self.name + " ends with an exception that is no std::exception");
  }
  ++changes_;
  memory_.advance(current_);
  self.state = State::ended;
  bool all = true;
  for (std::size_t i = 1; i < used_; ++i) all = all && threads_[i].state == State::ended;
  if (current_ == 0) {
    if (!all) failure_ = "the first thread ended before the others";
    fibers_.leave(0);
    return;
  }
  if (all && threads_[0].state == State::joining) threads_[0].state = State::ready;
  run_other(false);
}

void Machine::fail(const std::string& what) {
  failure_ = what;
  running_ = nullptr;
  fibers_.leave(current_);
  std::terminate();  // never reached: what was left is not entered again
}

void Machine::switch_to(std::size_t thread) {
  const std::size_t from = current_;
  if (from == thread) return;
  current_ = thread;
  fibers_.hand_over(from, thread);
}

void Machine::point() {
  if (++steps_ > kMostSteps) fail("no end after " + std::to_string(kMostSteps) + " steps: a livelock?");
  run_other(true);
}

void Machine::run_other(bool may_stay) {
  do {
    std::array<std::size_t, kMostThreads> options{};
    std::size_t count = 0;
    if (may_stay) options[count++] = current_;
    for (std::size_t i = 1; i <= used_; ++i) {
      const std::size_t other = (current_ + i) % used_;
      if (threads_[other].state == State::ready && !(may_stay && other == current_)) options[count++] = other;
    }
    if (count > 0) {
      switch_to(options[choices_->pick(static_cast<unsigned>(count))]);
      return;
    }
  } while (let_time_pass());
  fail(stuck());
}

// Called when no thread is ready: a thread that waits for quiet goes on, or else the earliest
// deadline passes.
bool Machine::let_time_pass() {
  Thread* next = nullptr;
  for (std::size_t i = 0; i < used_; ++i) {
    Thread& thread = threads_[i];
    if (thread.state == State::quiet) {
      thread.state = State::ready;
      return true;
    }
    if (thread.state != State::parked || !thread.deadline) continue;
    if (next == nullptr || *thread.deadline < *next->deadline) next = &thread;
  }
  if (next == nullptr) return false;
  clock_ = std::max(clock_, *next->deadline);
  next->has_timed_out = true;
  next->state = State::ready;
  return true;
}

std::string Machine::stuck() const {
  std::string text = "no thread can go on:";
  for (std::size_t i = 0; i < used_; ++i) {
    const Thread& thread = threads_[i];
    const char* const state = thread.state == State::parked    ? "sleeps"
                              : thread.state == State::locking ? "waits for a mutex"
                              : thread.state == State::popping ? "waits for an element"
                              : thread.state == State::joining ? "waits for the others"
                                                               : "has ended";
    text += (i > 0 ? ", " : " ") + thread.name + " " + state;
  }
  return text;
}

void Machine::block(State state, const void* waits_for) {
  Thread& self = threads_[current_];
  self.state = state;
  self.waits_for = waits_for;
  run_other(false);
}

void Machine::wake(State state, const void* waits_for, std::size_t most) {
  for (std::size_t i = 0; i < used_ && most > 0; ++i) {
    if (threads_[i].state != state || threads_[i].waits_for != waits_for) continue;
    threads_[i].state = State::ready;
    --most;
  }
}

void Machine::yield() {
  ++steps_;
  const std::size_t self = current_;
  std::array<std::size_t, kMostThreads> options{};
  std::size_t count = 0;
  for (std::size_t i = 1; i < used_; ++i) {
    const std::size_t other = (self + i) % used_;
    if (threads_[other].state == State::ready) options[count++] = other;
  }
  options[count++] = self;
  switch_to(options[choices_->pick(static_cast<unsigned>(count))]);
}

WeakMemory::Location& Machine::locate(const volatile void* address, std::size_t bytes) {
  WeakMemory::Location* const at = memory_.location(reinterpret_cast<std::uintptr_t>(address), bytes);
  if (at == nullptr) fail("too many atomic locations, or one that is used with two sizes");
  return *at;
}

WeakMemory::Location& Machine::arrive(const volatile void* address, std::size_t bytes) {
  point();
  return locate(address, bytes);
}

std::memory_order Machine::order_at(const void* code, int order, Sites::Kind kind) {
  const Sites::Orders orders = sites_.orders(code, static_cast<std::memory_order>(order), kind);
  // The waiting of the C++ library relies on what processors do, where a seq_cst operation orders
  // everything around it.
  if (orders.is_library && orders.effective == std::memory_order_seq_cst) memory_.order_with_all(current_);
  return orders.effective;
}

void Machine::access(const void* address, std::size_t bytes, bool is_write, const void* code) {
  if (fibers_.is_on_stack(current_, address) || address == errno_) return;
  PlainMemory::Access other;
  if (!plain_.is_race(reinterpret_cast<std::uintptr_t>(address), bytes,
                      {.thread = current_, .is_write = is_write, .code = code}, memory_.knowledge(current_), other)) {
    return;
  }
  note(is_write ? "writes" : "reads", code, 0, 0, 0, std::memory_order_relaxed);
  events_.push_back({.thread = other.thread, .what = other.is_write ? "wrote that" : "read that", .code = other.code});
  fail("data race: " + threads_[current_].name + (is_write ? " writes" : " reads") + " what " +
       threads_[other.thread].name + (other.is_write ? " wrote" : " read"));
}

std::uint64_t Machine::load(const volatile void* address, std::size_t bytes, int order, const void* code) {
  WeakMemory::Location& at = locate(address, bytes);
  // A load that can see nothing new needs no switch to another thread before it: any thread that
  // could run now can run before the next operation instead.
  std::uint64_t& looked = threads_[current_].looked[at.number];
  if (looked != changes_) {
    point();
    looked = changes_;
  } else if (++steps_ > kMostSteps) {
    point();
  }
  const std::memory_order effective = order_at(code, order, Sites::Kind::load);
  const WeakMemory::Seen seen = memory_.load(current_, at, effective, *choices_);
  note("load", code, at.number + 1, seen.value, seen.older, effective);
  return seen.value;
}

void Machine::store(volatile void* address, std::size_t bytes, std::uint64_t value, int order, const void* code) {
  WeakMemory::Location& at = arrive(address, bytes);
  const std::memory_order effective = order_at(code, order, Sites::Kind::store);
  const WeakMemory::Seen seen = memory_.store(current_, at, value, effective, *choices_);
  ++changes_;
  note("store", code, at.number + 1, value, seen.older, effective);
}

std::uint64_t Machine::compare_exchange(volatile void* address, std::size_t bytes, std::uint64_t expected,
                                        std::uint64_t desired, int order, int if_not, const void* code) {
  WeakMemory::Location& at = arrive(address, bytes);
  const std::memory_order effective = order_at(code, order, Sites::Kind::modify);
  const WeakMemory::Seen seen = memory_.compare_exchange(current_, at, expected, desired, effective,
                                                         static_cast<std::memory_order>(if_not), *choices_);
  const bool is_done = seen.value == expected;
  if (is_done) ++changes_;
  note(is_done ? "exchange" : "load", code, at.number + 1, is_done ? desired : seen.value, seen.older, effective);
  return seen.value;
}

void Machine::fence(int order, const void* code) {
  point();
  memory_.fence(current_, order_at(code, order, Sites::Kind::fence));
  ++changes_;
}

void Machine::allocated(const void* address, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  plain_.forget(begin, bytes);
  memory_.forget(begin, bytes);
}

}  // namespace forebay::model

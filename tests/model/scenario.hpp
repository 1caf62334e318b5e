#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

// What scenarios are written with. Scenarios are compiled like the sources that they drive, so that
// the explorer sees every memory access. The explorer itself is not.
namespace forebay::model {

// A bounded use of the real sources by a few threads, deterministic for given choices. The first
// thread sets everything up, starts the other threads and joins them.
struct Scenario {
  const char* name;
  void (*run)();
};

// All scenarios.
[[nodiscard]] std::span<const Scenario> scenarios();

// The scenarios, by the file that defines them.
// ring_scenarios.cpp
void one_after_the_other();
void two_decoders();
void leases_elsewhere();
void growing();
void planning();
void looking_ahead();
void reusing();
void busy_decoders();
void stopping();
void blocked_time();

// stream_scenarios.cpp
void streams();
void uses_together();
void tensors();
void run_ahead();
void failing_device();

// wait_scenarios.cpp
void waiting();
void taking_turns();
void signalling();
void records();

// A scenario without a ring: the explorer must find exactly the outcomes that C++ allows.
struct Litmus {
  Scenario scenario;
  std::set<std::string> outcomes;
};

[[nodiscard]] std::vector<Litmus> litmus_tests();

// --- Called by the threads of a scenario ---

// Starts a thread. Called by the first thread.
void spawn(const char* name, std::function<void()> body);
// Waits until all started threads have ended.
void join();
// Waits until no other thread can go on until something else happens. The caller then knows
// everything that they did.
void until_quiet();
// Fails the execution unless this holds.
void require(bool holds, const std::string& what);
// Records how this execution ended, for litmus tests.
void outcome(std::string text);
// The time on the program's clock. Does not advance it.
[[nodiscard]] std::int64_t now_ns();

// A queue between threads with the guarantees that queues such as moodycamel's document: each
// element is taken once, and what its producer did before happens before what its consumer does
// after. The order is not guaranteed, so any element may come first.
class Queue {
 public:
  void push(std::uint64_t element);
  // Waits for an element. Returns false if the queue is empty and closed.
  [[nodiscard]] bool pop(std::uint64_t& element);
  void close();
};

}  // namespace forebay::model

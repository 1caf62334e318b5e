#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

// What scenarios are written with. They are compiled as the sources that they drive, so that the explorer sees each
// access to memory; the explorer itself is not.
namespace forebay::model {

// One use of the real sources by a few threads, of bounded length, the same whenever it is run with the same choices.
// Its first thread makes the world, starts the others, and joins them.
struct Scenario {
  const char* name;
  void (*run)();
};

// All there are.
[[nodiscard]] std::span<const Scenario> scenarios();

// Those that there are, by the file that has them.
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

// A scenario without a ring: what C++ says that its threads may see, which the explorer must find, all of it and
// nothing else.
struct Litmus {
  Scenario scenario;
  std::set<std::string> outcomes;
};

[[nodiscard]] std::vector<Litmus> litmus_tests();

// --- what threads of a scenario may call ---

// Starts a thread. From the first thread.
void spawn(const char* name, std::function<void()> body);
// Waits until all threads that were started have ended.
void join();
// Waits until no other thread can go on before something else happens, and then knows of everything that they did.
void until_quiet();
// The execution has failed unless this holds.
void require(bool holds, const std::string& what);
// How this execution ended, for litmus tests.
void outcome(std::string text);
// What the program's clock shows, without moving it on.
[[nodiscard]] std::int64_t now_ns();

// A queue between threads, with what queues such as moodycamel's document: an element is taken once, and what its
// producer did before happens before what its consumer does after. In which order elements are taken is not promised,
// so any may come first.
class Queue {
 public:
  void push(std::uint64_t element);
  // Waits for an element; false when there are none and the queue is closed.
  [[nodiscard]] bool pop(std::uint64_t& element);
  void close();
};

}  // namespace forebay::model

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::testing {

// Streams of a device that does not exist: what is pushed onto a stream happens in its order, and what happens next
// among the streams is chosen by a seed, against the program: a stream may be left behind for long. Nothing happens by
// itself: progress is made by step(), and by those who ask (query) or wait (synchronize). Any thread may call; work
// runs on the thread that makes progress, one piece at a time.
class SimulatedStreams {
 public:
  using Stream = std::uint32_t;
  using Event = std::uint32_t;

  explicit SimulatedStreams(std::uint64_t seed) : random_(seed), patience_(std::uint64_t{4} << random_.below(8)) {}

  [[nodiscard]] Stream make_stream();
  [[nodiscard]] Event make_event();

  void push(Stream stream, std::function<void()> work);
  // As CUDA has it: an event is its latest record, and a wait is for the record that was the latest when it was asked
  // for. Never recorded is complete.
  void record(Event event, Stream stream);
  void wait(Stream stream, Event event);
  [[nodiscard]] bool query(Event event);
  // Throws std::logic_error when the event cannot complete, whatever happens next.
  void synchronize(Event event);

  // The next piece of work; false when nothing can happen.
  bool step();
  // Everything that can happen.
  void drain();

 private:
  // One record of an event.
  struct Mark {
    bool complete = false;
  };
  struct Operation {
    std::function<void()> work;          // or
    std::shared_ptr<Mark> completes;     // or
    std::shared_ptr<const Mark> needed;  // nothing to do but to wait
  };

  [[nodiscard]] bool can_run(const std::deque<Operation>& stream) const;
  bool step_locked();

  std::recursive_mutex mutex_;  // work may push
  Random random_;
  std::uint64_t patience_;  // steps, about, before other streams are favoured
  std::vector<std::deque<Operation>> streams_;
  std::vector<std::shared_ptr<Mark>> events_;  // latest record; null = none
  std::uint64_t favoured_ = 0;                 // bits: streams that are served before the others for a while
};

}  // namespace forebay::testing

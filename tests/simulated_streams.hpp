#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::testing {

// Simulated device streams. The work of one stream is done in order; which stream acts next is
// chosen by a seed, adversarially: a stream may lag far behind. Nothing happens by itself: step(),
// query() and synchronize() make progress. Any thread may call; work runs on the thread that makes
// progress, one piece at a time.
class SimulatedStreams {
 public:
  using Stream = std::uint32_t;
  using Event = std::uint32_t;

  explicit SimulatedStreams(std::uint64_t seed) : random_(seed), patience_(std::uint64_t{4} << random_.below(8)) {}

  [[nodiscard]] Stream make_stream();
  [[nodiscard]] Event make_event();

  void push(Stream stream, std::function<void()> work);
  // As in CUDA, an event stands for its latest record, and a wait is for the record that was the
  // latest when the wait was requested. An event that was never recorded is complete.
  void record(Event event, Stream stream);
  void wait(Stream stream, Event event);
  [[nodiscard]] bool query(Event event);
  // Throws std::logic_error if the event cannot complete, whatever happens next.
  void synchronize(Event event);

  // Does the next piece of work; false if nothing can be done.
  bool step();
  // Does all work that can be done.
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
  std::uint64_t patience_;  // roughly how many steps pass before other streams are favoured
  std::vector<std::deque<Operation>> streams_;
  std::vector<std::shared_ptr<Mark>> events_;  // latest record; null = none
  std::uint64_t favoured_ = 0;                 // bits: streams that are served before the others for a while
};

}  // namespace forebay::testing

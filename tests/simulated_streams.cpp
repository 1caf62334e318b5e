#include "simulated_streams.hpp"

#include <stdexcept>
#include <utility>

namespace forebay::testing {

SimulatedStreams::Stream SimulatedStreams::make_stream() {
  const std::lock_guard lock(mutex_);
  streams_.emplace_back();
  return static_cast<Stream>(streams_.size() - 1);
}

SimulatedStreams::Event SimulatedStreams::make_event() {
  const std::lock_guard lock(mutex_);
  events_.emplace_back();
  return static_cast<Event>(events_.size() - 1);
}

void SimulatedStreams::push(Stream stream, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  streams_.at(stream).push_back({.work = std::move(work), .completes = nullptr, .needed = nullptr});
}

void SimulatedStreams::record(Event event, Stream stream) {
  const std::lock_guard lock(mutex_);
  events_.at(event) = std::make_shared<Mark>();
  streams_.at(stream).push_back({.work = nullptr, .completes = events_[event], .needed = nullptr});
}

void SimulatedStreams::wait(Stream stream, Event event) {
  const std::lock_guard lock(mutex_);
  if (!events_.at(event)) return;
  streams_.at(stream).push_back({.work = nullptr, .completes = nullptr, .needed = events_[event]});
}

bool SimulatedStreams::query(Event event) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const Mark> mark = events_.at(event);
  for (std::uint64_t steps = random_.below(4); steps > 0 && step_locked();) --steps;
  return !mark || mark->complete;
}

void SimulatedStreams::synchronize(Event event) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const Mark> mark = events_.at(event);
  while (mark && !mark->complete) {
    if (!step_locked()) throw std::logic_error("an event is waited for that nothing can complete");
  }
}

bool SimulatedStreams::step() {
  const std::lock_guard lock(mutex_);
  return step_locked();
}

void SimulatedStreams::drain() {
  while (step()) continue;
}

bool SimulatedStreams::can_run(const std::deque<Operation>& stream) const {
  return !stream.empty() && (!stream.front().needed || stream.front().needed->complete);
}

bool SimulatedStreams::step_locked() {
  if (random_.below(patience_) == 0) favoured_ = random_.bits();
  std::vector<std::size_t> first;
  std::vector<std::size_t> others;
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    if (can_run(streams_[stream])) ((favoured_ >> (stream % 64) & 1U) != 0 ? first : others).push_back(stream);
  }
  const auto& choice = first.empty() ? others : first;
  if (choice.empty()) return false;
  auto& stream = streams_[choice[random_.below(choice.size())]];
  const Operation operation = std::move(stream.front());
  stream.pop_front();
  if (operation.work) operation.work();
  if (operation.completes) operation.completes->complete = true;
  return true;
}

}  // namespace forebay::testing

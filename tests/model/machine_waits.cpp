// What happens where the threads of a scenario wait and wake each other: futexes, mutexes, queues
// and joins.
#include <linux/futex.h>
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "machine.hpp"

namespace forebay::model {

// The kernel orders the waits and wakes of one word. A wait after a wake sees what was stored
// before the wake; a wait before it is woken.
long Machine::futex(const void* address, int operation, std::uint32_t value, std::optional<std::int64_t> timeout_ns) {
  point();
  WeakMemory::Location& at = locate(address, sizeof(std::uint32_t));
  Word& of = word(address);
  ++changes_;
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAKE) {
    of.least = std::max(of.least, memory_.knowledge(current_).seen[at.number]);
    const auto sleeps = [&](const Thread& thread) {
      return thread.state == State::parked && thread.waits_for == address;
    };
    const auto woken = std::min<std::ptrdiff_t>(
        value, std::count_if(threads_.begin(), threads_.begin() + static_cast<std::ptrdiff_t>(used_), sleeps));
    wake(State::parked, address, static_cast<std::size_t>(woken));
    note("wake", nullptr, at.number + 1, static_cast<std::uint64_t>(woken), 0, std::memory_order_relaxed);
    return woken;
  }
  if ((operation & FUTEX_CMD_MASK) != FUTEX_WAIT) fail("a futex operation that the model does not know");
  const WeakMemory::Seen seen = memory_.peek(current_, at, of.least, *choices_);
  note(seen.value == value ? "park" : "not park", nullptr, at.number + 1, seen.value, seen.older,
       std::memory_order_relaxed);
  if (seen.value != value) return -EAGAIN;
  if (choices_->pick(2) == 1) return -EINTR;  // a signal, or a spurious return
  Thread& self = threads_[current_];
  self.has_timed_out = false;
  self.deadline.reset();
  if (timeout_ns) self.deadline = clock_ + *timeout_ns;
  block(State::parked, address);
  return self.has_timed_out ? -ETIMEDOUT : 0;
}

void Machine::lock(const void* address) {
  point();
  while (mutex(address).is_held) block(State::locking, address);
  Mutex& taken = mutex(address);
  taken.is_held = true;
  memory_.knowledge(current_).join(taken.knowledge);
  ++changes_;
}

void Machine::unlock(const void* address) {
  Mutex& held = mutex(address);
  held.is_held = false;
  held.knowledge.join(memory_.knowledge(current_));
  memory_.advance(current_);
  wake(State::locking, address, kMostThreads);
  ++changes_;
}

void Machine::spawn(const char* name, std::function<void()> body) {
  if (current_ != 0 || used_ == kMostThreads)
    fail("only the first thread starts others, and not more than there may be");
  const std::size_t started = used_++;
  threads_[started] = {.name = name, .body = std::move(body)};
  memory_.knowledge(started).join(memory_.knowledge(0));
  memory_.advance(0);
  ++changes_;
}

void Machine::join() {
  const auto has_ended = [](const Thread& thread) { return thread.state == State::ended; };
  const auto begin = threads_.begin();
  if (!std::all_of(begin + 1, begin + static_cast<std::ptrdiff_t>(used_), has_ended)) block(State::joining, nullptr);
  for (std::size_t i = 1; i < used_; ++i) memory_.knowledge(0).join(memory_.knowledge(i));
  ++changes_;
}

void Machine::until_quiet() {
  block(State::quiet, nullptr);
  for (std::size_t i = 0; i < used_; ++i) memory_.knowledge(current_).join(memory_.knowledge(i));
  ++changes_;
}

void Machine::push(const void* queue, std::uint64_t element) {
  point();
  elements(queue).elements.push_back({element, memory_.knowledge(current_)});
  memory_.advance(current_);
  wake(State::popping, queue, kMostThreads);
  ++changes_;
}

bool Machine::pop(const void* queue, std::uint64_t& element) {
  point();
  while (elements(queue).elements.empty()) {
    if (elements(queue).is_closed) return false;
    block(State::popping, queue);
  }
  std::vector<Element>& there = elements(queue).elements;
  const auto taken = there.begin() + choices_->pick(static_cast<unsigned>(there.size()));
  element = taken->value;
  memory_.knowledge(current_).join(taken->knowledge);
  there.erase(taken);
  ++changes_;
  return true;
}

void Machine::close(const void* queue) {
  point();
  elements(queue).is_closed = true;
  wake(State::popping, queue, kMostThreads);
  ++changes_;
}

namespace {

// The entry for this address, added if there is none.
template <typename Entry>
Entry& entry_of(std::vector<Entry>& entries, const void* Entry::*key, const void* address) {
  for (Entry& entry : entries) {
    if (entry.*key == address) return entry;
  }
  entries.emplace_back();
  entries.back().*key = address;
  return entries.back();
}

}  // namespace

Machine::Mutex& Machine::mutex(const void* address) { return entry_of(mutexes_, &Mutex::address, address); }
Machine::Elements& Machine::elements(const void* queue) { return entry_of(queues_, &Elements::queue, queue); }
Machine::Word& Machine::word(const void* address) { return entry_of(words_, &Word::address, address); }

std::string Machine::trace(std::size_t most) const {
  std::vector<Event> told;  // repeated reads by a thread are shown once
  for (const Event& event : events_) {
    const auto is_same = [&](const Event& other) {
      return other.thread == event.thread && other.code == event.code && other.value == event.value;
    };
    const std::size_t near = std::min<std::size_t>(told.size(), 6);
    if (std::none_of(told.end() - static_cast<std::ptrdiff_t>(near), told.end(), is_same)) told.push_back(event);
  }
  if (told.size() > most) told.erase(told.begin(), told.end() - static_cast<std::ptrdiff_t>(most));
  std::vector<const void*> codes;
  for (const Event& event : told) codes.push_back(event.code);
  const std::vector<std::string> names = Sites::names(codes);
  std::string text;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const Event& event = told[i];
    text += "  " + threads_[event.thread].name + ": " + event.what;
    if (event.location > 0) text += " #" + std::to_string(event.location) + " = " + std::to_string(event.value);
    if (event.older > 0) text += " (" + std::to_string(event.older) + " newer)";
    if (event.code != nullptr && event.location > 0) text += ", " + std::string(order_name(event.order));
    text += event.code != nullptr ? ", " + names[i] + "\n" : "\n";
  }
  return text;
}

}  // namespace forebay::model

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

// What threads did and when, for a Chrome trace. Not installed.
namespace forebay {

// The events of one thread, recorded by that thread alone and read once it has ended or passed them on. Memory is
// bounded and allocated at construction. Adding an event does not allocate, lock, or enter the kernel (except when a
// page is touched for the first time).
class TimelineTrack {
 public:
  enum class Kind : std::uint8_t { work, step, counter };

  struct Event {
    std::int64_t begin_ns = 0;  // steady clock
    std::int64_t end_ns = 0;
    std::uint64_t id = 0;     // work: the sample; step: its number
    std::uint64_t value = 0;  // step: the epoch's batch; counter: its value
    std::uint32_t uses = 0;   // step: use_index
    Kind kind = Kind::work;
    const char* name = nullptr;  // lives as long as the program
  };

  // Holds the first `events` that begin before `until_ns` (steady clock).
  TimelineTrack(std::string name, std::size_t events, std::int64_t until_ns)
      : name_(std::move(name)), capacity_(events), until_ns_(until_ns) {
    events_.reserve(capacity_);
  }

  // What a worker did. Events shorter than a microsecond are omitted, because they would be invisible.
  void add_work(const char* name, std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t sample) noexcept {
    if (end_ns - begin_ns < 1000) return;
    add({.begin_ns = begin_ns, .end_ns = end_ns, .id = sample, .kind = Kind::work, .name = name});
  }
  // What the trainer's thread did for a step.
  void add_step(const char* name, std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t step, std::uint64_t batch,
                std::uint64_t use_index) noexcept {
    add({.begin_ns = begin_ns,
         .end_ns = end_ns,
         .id = step,
         .value = batch,
         .uses = static_cast<std::uint32_t>(use_index),
         .kind = Kind::step,
         .name = name});
  }
  // A number at one moment.
  void add_counter(const char* name, std::int64_t at_ns, std::uint64_t value) noexcept {
    add({.begin_ns = at_ns, .end_ns = at_ns, .value = value, .kind = Kind::counter, .name = name});
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::span<const Event> events() const noexcept { return events_; }
  // Events that did not fit, and those that began too late.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
  [[nodiscard]] std::uint64_t late() const noexcept { return late_; }

 private:
  void add(const Event& event) noexcept {
    if (event.begin_ns >= until_ns_) {
      ++late_;
    } else if (events_.size() == capacity_) {
      ++refused_;
    } else {
      events_.push_back(event);
    }
  }

  std::string name_;
  std::vector<Event> events_;
  std::size_t capacity_;
  std::int64_t until_ns_;
  std::uint64_t refused_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace forebay

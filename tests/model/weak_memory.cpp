#include "weak_memory.hpp"

#include <cstring>

namespace forebay::model {
namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_consume ||
         order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

std::size_t first_place_in_table(std::uintptr_t address) { return (address >> 2) * 0x9e3779b1U >> 3; }

}  // namespace

void WeakMemory::reset() noexcept {
  for (Thread& thread : threads_) thread = {};
  for (std::size_t i = 0; i < kMostThreads; ++i) threads_[i].now.clock[i] = 1;
  sequential_ = {};
  used_ = 0;
  table_.fill(0);
}

WeakMemory::Location* WeakMemory::location(std::uintptr_t address, std::size_t size) noexcept {
  std::size_t at = first_place_in_table(address) % kTable;
  for (; table_[at] != 0; at = (at + 1) % kTable) {
    Location& known = locations_[table_[at] - 1U];
    if (known.address == address) return known.size == size ? &known : nullptr;
  }
  if (used_ == kMostLocations) return nullptr;
  Location& added = locations_[used_];
  table_[at] = static_cast<std::uint16_t>(used_ + 1);
  added.address = address;
  added.size = size;
  added.number = used_++;
  added.values = 1;
  if (added.history.empty()) added.history.resize(16);
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(address), size);
  Location::Value& first = added.history[0];
  first.place = kGap;
  first.is_followed = false;
  first.hands_on = false;
  first.value = value;
  return &added;
}

void WeakMemory::forget(std::uintptr_t begin, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    // Its place in the table stays taken, by an address that is never looked up.
    if (locations_[i].address >= begin && locations_[i].address < begin + bytes) locations_[i].address = 1;
  }
}

std::uint32_t WeakMemory::least_place(std::size_t thread, const Location& at, std::memory_order order) const {
  const std::uint32_t known = threads_[thread].now.seen[at.number];
  return order == std::memory_order_seq_cst ? std::max(known, sequential_.seen[at.number]) : known;
}

bool WeakMemory::has_room_after(const Location& at, std::size_t index) noexcept {
  if (index + 1 == at.values) return true;
  return !at.history[index].is_followed && at.history[index + 1].place - at.history[index].place > 1;
}

void WeakMemory::note_read(std::size_t thread, const Location& at, std::size_t index, std::memory_order order) {
  Thread& reader = threads_[thread];
  const Location::Value& read = at.history[index];
  std::uint32_t& known = reader.now.seen[at.number];
  known = std::max(known, read.place);
  if (order == std::memory_order_seq_cst) {
    std::uint32_t& last = sequential_.seen[at.number];
    last = std::max(last, read.place);
  }
  if (!read.hands_on) return;
  std::uint32_t& taken = acquires(order) ? reader.acquired[at.number] : reader.noted[at.number];
  if (taken == read.place) return;
  taken = read.place;
  if (acquires(order)) {
    reader.now.join(read.knowledge);
  } else {
    reader.pending.join(read.knowledge);
    reader.has_pending = true;
  }
}

WeakMemory::Location::Value& WeakMemory::insert(Location& at, std::size_t index, std::uint64_t value) {
  if (at.values == at.history.size()) at.history.resize(2 * at.history.size());
  const bool is_last = index + 1 == at.values;
  const std::uint32_t before = at.history[index].place;
  const std::uint32_t place = is_last ? before + kGap : before + (at.history[index + 1].place - before) / 2;
  for (std::size_t i = at.values; i > index + 1; --i) at.history[i] = at.history[i - 1];
  ++at.values;
  Location::Value& added = at.history[index + 1];
  added.place = place;
  added.is_followed = false;
  added.hands_on = false;
  added.value = value;
  return added;
}

void WeakMemory::release(std::size_t thread, const Location& at, Location::Value& value, std::memory_order order) {
  Thread& writer = threads_[thread];
  writer.now.seen[at.number] = value.place;
  if (order == std::memory_order_seq_cst) {
    std::uint32_t& last = sequential_.seen[at.number];
    last = std::max(last, value.place);
  }
  if (!releases(order) && !writer.has_released) return;
  const Knowledge& handed = releases(order) ? writer.now : writer.released;
  if (value.hands_on) {
    value.knowledge.join(handed);
  } else {
    value.knowledge = handed;
    value.hands_on = true;
  }
  if (releases(order)) advance(thread);
}

WeakMemory::Seen WeakMemory::load(std::size_t thread, Location& at, std::memory_order order, Choices& choices) {
  const std::size_t read = choose(thread, at, order, choices, [](const Location&, std::size_t) { return true; });
  note_read(thread, at, read, order);
  return {at.history[read].value, at.values - 1 - read};
}

WeakMemory::Seen WeakMemory::peek(std::size_t thread, Location& at, std::uint32_t least, Choices& choices) {
  const std::size_t read =
      choose(thread, at, std::memory_order_relaxed, choices,
             [least](const Location& of, std::size_t i) { return of.history[i].place >= least || i + 1 == of.values; });
  return {at.history[read].value, at.values - 1 - read};
}

WeakMemory::Seen WeakMemory::store(std::size_t thread, Location& at, std::uint64_t value, std::memory_order order,
                                   Choices& choices) {
  const std::size_t after = choose(thread, at, order, choices, has_room_after);
  const std::size_t newer = at.values - 1 - after;
  release(thread, at, insert(at, after, value), order);
  return {value, newer};
}

void WeakMemory::change_value(std::size_t thread, Location& at, std::size_t read, std::uint64_t value,
                              std::memory_order order) {
  note_read(thread, at, read, order);
  Location::Value& added = insert(at, read, value);
  Location::Value& before = at.history[read];
  before.is_followed = true;
  if (before.hands_on) {  // the release sequence continues
    added.knowledge = before.knowledge;
    added.hands_on = true;
  }
  release(thread, at, added, order);
}

WeakMemory::Seen WeakMemory::compare_exchange(std::size_t thread, Location& at, std::uint64_t expected,
                                              std::uint64_t desired, std::memory_order order, std::memory_order if_not,
                                              Choices& choices) {
  const std::size_t read = choose(thread, at, order, choices, [&](const Location& of, std::size_t i) {
    return of.history[i].value != expected || has_room_after(of, i);
  });
  const Seen seen{at.history[read].value, at.values - 1 - read};
  if (seen.value == expected) {
    change_value(thread, at, read, desired, order);
  } else {
    note_read(thread, at, read, if_not);
  }
  return seen;
}

void WeakMemory::order_with_all(std::size_t thread) noexcept {
  auto& seen = threads_[thread].now.seen;
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = std::max(seen[i], sequential_.seen[i]);
  sequential_.seen = seen;
}

void WeakMemory::fence(std::size_t thread, std::memory_order order) noexcept {
  Thread& fencing = threads_[thread];
  if (acquires(order) && fencing.has_pending) fencing.now.join(fencing.pending);
  if (order == std::memory_order_seq_cst) order_with_all(thread);
  if (releases(order)) {
    fencing.released = fencing.now;
    fencing.has_released = true;
    advance(thread);
  }
}

}  // namespace forebay::model

// The work of one reader thread, request by request: take a few from the queue; for each, take
// memory from the budget, read into it, and hand the bytes to the decoders. Several quick reads are
// handed over together. Target is how the dataset gets its memory: once the dataset knows the size,
// Target takes room from the budget, which may wait, and it gives the room back if the read fails.
// reader_retries.cpp handles failed reads. QuickReader uses the same class on a decoder's thread,
// with may_wait_ = false.
//
// Two rules prevent threads from holding each other up. Before a reader waits, for memory or to
// retry, it hands over what it has read and gives back requests that it has not begun. And while it
// waits it holds no memory, except for a sample that grows, for which the budget has a rule of its
// own.

#include "reader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "base/file_io.hpp"
#include "base/limits.hpp"
#include "encoded_parts.hpp"
#include "requests.hpp"
#include "store/objects.hpp"

namespace forebay::read {
namespace {

using Activity = WorkerStatus::Activity;
using Clock = std::chrono::steady_clock;

// When a reader has worked on its requests for longer than this, other readers get the rest. Ten
// times the work that ChunkSize lets a thread take at once (workload.hpp), so a normal group of quick
// reads is not interrupted.
constexpr auto kPatience = std::chrono::milliseconds(1);

// Thrown if the byte budget has no room for a read that must not wait. Not a std::exception,
// because it says nothing about the sample.
struct NoRoom {};

// Second reads are a separate activity, so that the tuning does not count them as readers at work.
Activity reading(const ReadRequest& request) { return request.hedge == 0 ? Activity::reading : Activity::hedging; }
HedgedRead::Side side_of(const ReadRequest& request) {
  return request.hedge == 0 ? HedgedRead::Side::first : HedgedRead::Side::second;
}

// The request without what only readers need to know.
ReadRequest plain(ReadRequest request) {
  request.hedge = 0;
  request.failed = 0;
  return request;
}

}  // namespace

// Takes the sample's memory from the budget, and gives it back unless the sample is handed on. Lays out the buffer as
// EncodedSample describes.
class Reader::Target final : public ReadTarget {
 public:
  Target(Reader& reader, const ReadRequest& request, std::uint32_t retry)
      : reader_(reader), request_(request), retry_(retry) {}
  ~Target() override { give_back(); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::span<std::byte> reserve(std::size_t bytes) override {
    take(bytes, bytes + reader_.fields_ * sizeof(std::uint64_t));
    image_bytes_ = bytes;
    return std::span(buffer_).first(bytes);
  }
  // Reserves room for the whole sample; `parts` receives the places of its image and fields.
  void reserve_all(const data::Placement& placement, std::vector<std::span<std::byte>>& parts) {
    take(static_cast<std::size_t>(placement.length), encoded_bytes(placement));
    image_bytes_ = static_cast<std::size_t>(placement.length);
    lay_out(buffer_, placement, parts);
  }

  // Reserves room for a field from `begin` on, where the last one ends. Other readers may wait for
  // memory that this thread holds until it has read the rest, so the budget lets this thread pass
  // the limit rather than wait for them.
  [[nodiscard]] std::span<std::byte> reserve_field(std::size_t begin, std::size_t bytes) {
    ByteBudget& budget = reader_.links_.budget;
    budget.shrink(buffer_, begin);
    guard_memory(bytes, [&] {
      if (!budget.try_grow(buffer_, bytes)) wait([&] { budget.grow(request_.order, buffer_, bytes); });
    });
    return std::span(buffer_).subspan(begin);
  }
  void note_end(std::size_t field) noexcept {
    const std::uint64_t end = buffer_.size();
    std::memcpy(buffer_.data() + image_bytes_ + field * sizeof end, &end, sizeof end);
  }

  [[nodiscard]] std::size_t size() const noexcept { return buffer_.size(); }
  [[nodiscard]] std::size_t image_bytes() const noexcept { return reader_.fields_ == 0 ? SIZE_MAX : image_bytes_; }
  // Nanoseconds spent reading before the last wait.
  [[nodiscard]] std::int64_t read_before() const noexcept { return read_before_; }
  [[nodiscard]] std::vector<std::byte> release() noexcept { return std::exchange(buffer_, {}); }

 private:
  // REQUIRES: bytes <= all, unless no memory could hold `bytes`, so that `all` may have overflowed.
  void take(std::size_t bytes, std::size_t all) {
    give_back();  // a waiting thread must hold nothing
    guard_memory(bytes, [&] {
      if (auto buffer = reader_.links_.budget.try_take(request_.order, all)) {
        buffer_ = *std::move(buffer);
      } else {
        wait([&] { buffer_ = reader_.links_.budget.take(request_.order, all); });
      }
    });
  }
  template <typename Take>
  static void guard_memory(std::size_t bytes, Take&& take) {
    try {
      if (bytes > SIZE_MAX / 4) throw std::length_error("");  // so that no sum overflows
      take();
    } catch (const std::bad_alloc&) {
      // No sample needs that much, so the sample is bad.
      if (bytes > kLargestSampleFile)
        throw SampleError("there is no memory for its " + std::to_string(bytes) + " bytes");
      throw out_of_memory("for the " + std::to_string(bytes) + " bytes of a sample");
    } catch (const std::length_error&) {
      throw SampleError("its " + std::to_string(bytes) + " bytes are more than any memory holds");
    }
  }
  template <typename Take>
  void wait(Take&& take) {
    // The first read of the sample may hold the room that this second one needs: if it waited, all
    // later samples would have to wait for that first read.
    if (request_.hedge != 0 || !reader_.may_wait_) throw NoRoom();
    reader_.hand_over();
    reader_.workload_.pause();
    read_before_ += reader_.status_.set(Activity::waiting_budget, request_.sample);
    take();
    reader_.status_.set(Activity::reading, request_.sample);
    reader_.workload_.resume(retry_);
  }
  void give_back() noexcept {
    if (buffer_.capacity() != 0) reader_.links_.budget.give_back(std::exchange(buffer_, {}));
  }

  Reader& reader_;
  const ReadRequest& request_;
  std::uint32_t retry_;
  std::vector<std::byte> buffer_;
  std::size_t image_bytes_ = 0;
  std::int64_t read_before_ = 0;
};

// Appends a field to what has been read of the sample.
class Reader::FieldTarget final : public ReadTarget {
 public:
  FieldTarget(Target& target, const Field& field) : target_(target), field_(field), begin_(target.size()) {}
  // Refuses a field that is too large for a batch before it is read.
  std::span<std::byte> reserve(std::size_t bytes) override {
    if (!data::fits_batch(field_, bytes)) throw data::too_large_for_batch(field_, bytes);
    return target_.reserve_field(begin_, bytes);
  }

 private:
  Target& target_;
  const Field& field_;
  std::size_t begin_;
};

Reader::Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, Workload& workload,
               Hedging* hedging, WorkerStatus& status)
    : links_(links),
      options_(options),
      fields_(links.dataset.fields().size()),
      placed_(fields_ > 0 ? data::placed_samples(links.dataset) : nullptr),
      stop_(stop),
      workload_(workload),
      hedging_(hedging),
      status_(status) {
  handed_over_.reserve(ChunkSize::kMost);
}

// The status reads the clock at the end of a read anyway; that time is reused here.
bool Reader::work() {
  const std::size_t taken = links_.requests.take(std::span(requests_).first(chunk_.at_once()));
  workload_.assign(std::span(requests_).first(taken));
  const std::int64_t begin = steady_ns();
  while (const auto request = workload_.next()) {
    if (request->hedge == 0) {
      serve(*request);
    } else {
      serve_second(*request);
    }
    const std::int64_t now = status_is_of_last_read_ ? status_.last_set_ns() : steady_ns();
    if (std::chrono::nanoseconds(now - begin) < kPatience) continue;
    links_.requests.push_urgent(std::span(requests_).first(workload_.take_rest(requests_)));
    break;
  }
  hand_over();
  status_.set(Activity::idle);
  status_is_of_last_read_ = false;
  return taken > 0;
}

void Reader::serve_second(const ReadRequest& request) {
  const std::shared_ptr<HedgedRead> hedged = hedging_->hedged(request.hedge);
  workload_.join(hedged);
  if (hedged->is_won()) {
    static_cast<void>(workload_.end());
    return;
  }
  links_.totals.hedged_reads.fetch_add(1, std::memory_order_relaxed);
  try_once(request, hedged->retry());
}

void Reader::try_once(const ReadRequest& request, std::uint32_t retry) {
  try {
    if (request.coalesced == 0) {
      read(request, retry);
    } else {
      read_coalesced(request, retry);
    }
  } catch (const SampleError& error) {
    give_up(request, error.what());
  } catch (const NoRoom&) {
    give_up(request, "");
  }
}

// If a second read is under way, only the last of the two to give up reports the sample.
void Reader::give_up(const ReadRequest& request, std::string_view reason) {
  std::string verdict(reason);
  if (const std::shared_ptr<HedgedRead> hedged = workload_.end()) {
    auto last = hedged->give_up(side_of(request), std::move(verdict));
    if (!last) return;
    verdict = *std::move(last);
  }
  if (request.coalesced != 0) return links_.coalesced->give_up(request.coalesced);
  links_.sink.bad_sample(plain(request), verdict);
}

void Reader::read(const ReadRequest& request, std::uint32_t retry) {
  EncodedSample sample = fetch(request, retry);
  const std::shared_ptr<HedgedRead> hedged = workload_.end(sample);
  if (hedged) {
    if (!hedged->win()) return links_.budget.give_back(std::move(sample.bytes));
    workload_.keep(std::move(sample));
    if (request.hedge != 0) links_.totals.hedges_won.fetch_add(1, std::memory_order_relaxed);
  }
  ++counted_.delivered;
  // The hedging thread may hand the sample over while the next read is under way, so the totals
  // must have it by then.
  if (hedging_ != nullptr) add_to_totals();
}

// Runs on a decoder's thread, for quick reads. A failed read counts with its time, so that a store
// that fails stops being quick.
Reader::Outcome Reader::read_now(EncodedSample& sample) {
  may_wait_ = false;
  try {
    sample = fetch(sample.request, sample.request.failed);
    ++counted_.delivered;
    return Outcome::read;
  } catch (const NoRoom&) {
    return Outcome::later;
  } catch (const SampleError& error) {
    if (links_.pace != nullptr) links_.pace->add(status_.set(Activity::reading, sample.request.sample));
    if (!error.is_transient()) {
      links_.sink.bad_sample(sample.request, error.what());
      return Outcome::bad;
    }
    links_.sink.will_retry(sample.request, error.what());
    ++sample.request.failed;
    return Outcome::later;
  }
}

void Reader::end_reads() noexcept {
  add_to_totals();
  status_is_of_last_read_ = false;
}

// The emulated store adds its latency before the read and waits for its bandwidth afterwards. Waits
// for memory in between do not count as time in the store (read_before).
EncodedSample Reader::fetch(const ReadRequest& request, std::uint32_t retry) {
  if (std::exchange(status_is_of_last_read_, false) && request.hedge == 0) {
    status_.go_on_with(request.sample);
  } else {
    status_.set(reading(request), request.sample);
  }
  Target target(*this, request, retry);
  if (links_.throttle != nullptr) links_.throttle->before_read(request, retry, stop_);
  if (fields_ > 0 && read_parts(request, target)) {
    if (links_.throttle != nullptr) links_.throttle->after_read(target.size(), stop_);
  } else {
    links_.dataset.read(request.sample, target);
    if (links_.throttle != nullptr) links_.throttle->after_read(std::min(target.image_bytes(), target.size()), stop_);
    if (fields_ > 0) read_fields(request, retry, target);
  }
  count_read(target.read_before() + status_.set(reading(request), request.sample), target.size());
  status_is_of_last_read_ = request.hedge == 0;
  return {.request = plain(request), .bytes = target.release(), .image_bytes = target.image_bytes()};
}

// A field in its own file or record is a separate request, in the emulated store too.
void Reader::read_fields(const ReadRequest& request, std::uint32_t retry, Target& target) {
  const StorageThrottle* const throttle = links_.throttle;
  for (std::size_t field = 0; field < fields_; ++field) {
    const std::size_t before = target.size();
    FieldTarget place(target, links_.dataset.fields()[field]);
    try {
      if (throttle != nullptr && !links_.dataset.field_name(request.sample, field).empty()) {
        throttle->before_read(request, retry, stop_, field + 1);
      }
      links_.dataset.read_field(request.sample, field, place);
      if (throttle != nullptr) throttle->after_read(target.size() - before, stop_);
    } catch (const SampleError& error) {
      const SampleError named = field_error(links_.dataset, request.sample, field, error);
      if (is_truncated(error)) throw TruncatedFile(named);
      throw SampleError(named);
    }
    target.note_end(field);
  }
}

// After an error the parts are read one by one, which shows which of them is bad.
bool Reader::read_parts(const ReadRequest& request, Target& target) {
  if (placed_ == nullptr) return false;
  const std::optional<data::Placement> placement = placed_->placement(request.sample);
  if (!placement || placement->idle > CoalescingLimits().gap) return false;
  try {
    std::vector<std::span<std::byte>> parts;
    target.reserve_all(*placement, parts);
    placed_->read_together(std::span(&request.sample, 1), parts);
    return true;
  } catch (const SampleError&) {
    return false;
  }
}

// Counts are kept in plain members, and added to the shared totals at each hand-over.
void Reader::count_read(std::int64_t ns, std::size_t bytes) {
  chunk_.add(ns);
  if (links_.pace != nullptr) links_.pace->add(ns);
  const store::Traffic traffic = store::take_traffic();
  // Quick reads from a cache would make every read of the store look slow.
  const bool is_cached = traffic.from_cache > 0 && traffic.from_store == 0;
  if (hedging_ != nullptr && !is_cached) hedging_->read_took(std::chrono::nanoseconds(ns));
  counted_.from_store += traffic.from_store;
  counted_.from_cache += traffic.from_cache;
  counted_.cache_room += traffic.room;
  counted_.ns += static_cast<std::uint64_t>(ns);
  counted_.bytes += bytes;
}

void Reader::add_to_totals() noexcept {
  const auto add = [](std::atomic<std::uint64_t>& total, std::uint64_t& counted) {
    if (counted > 0) total.fetch_add(std::exchange(counted, 0), std::memory_order_relaxed);
  };
  add(links_.totals.reads, counted_.delivered);
  add(links_.totals.read_ns, counted_.ns);
  add(links_.totals.bytes_read, counted_.bytes);
  add(links_.totals.bytes_from_store, counted_.from_store);
  add(links_.totals.bytes_from_cache, counted_.from_cache);
  add(links_.totals.cache_room, counted_.cache_room);
}

// Takes memory for all members at once, without waiting. If there is none, or the read fails, they
// are read one by one. A failed group is not retried as a whole, because one bad sample would make
// all of them fail again.
void Reader::read_coalesced(const ReadRequest& request, std::uint32_t retry) {
  CoalescedReads& coalesced = *links_.coalesced;
  const std::shared_ptr<CoalescedReads::CoalescedRead> group = coalesced.find(request.coalesced);
  if (!group) {  // the other side of a hedged read was quicker, or it is no longer needed
    static_cast<void>(workload_.end());
    return;
  }
  status_.set(reading(request), request.sample);
  status_is_of_last_read_ = false;
  auto memory = coalesced.take_memory(*group, request.order);
  if (!memory) throw NoRoom();
  struct Guard {
    CoalescedReads& coalesced;
    CoalescedReads::Buffers buffers;
    ~Guard() { coalesced.give_back(std::move(buffers)); }
  } held{coalesced, *std::move(memory)};
  if (links_.throttle != nullptr) links_.throttle->before_read(request, retry, stop_);
  const std::size_t bytes = coalesced.read(*group, held.buffers);
  if (links_.throttle != nullptr) links_.throttle->after_read(bytes, stop_);
  count_read(status_.set(reading(request), request.sample), bytes);
  const std::shared_ptr<HedgedRead> hedged = workload_.end();
  if (hedged) {
    if (!hedged->win()) return;
    if (request.hedge != 0) links_.totals.hedges_won.fetch_add(1, std::memory_order_relaxed);
  }
  ++counted_.delivered;
  add_to_totals();  // before its samples can be served
  coalesced.deliver(group, std::exchange(held.buffers, {}));
}

void Reader::hand_over() {
  add_to_totals();
  workload_.take_read(handed_over_);
  links_.encoded.push(handed_over_);
  handed_over_.clear();
}

}  // namespace forebay::read

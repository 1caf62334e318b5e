#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "requests.hpp"

namespace forebay::read {

// How many pieces of work a thread takes from a queue at once: about 100 microseconds' worth, so that taking and
// handing over, including a wake-up, costs little compared with the work; and one if a piece takes longer, so that
// other threads find work too. Both bounds are chosen. Used by one thread.
class ChunkSize {
 public:
  static constexpr std::size_t kMost = 16;

  // Pieces to take now; one while nothing is known.
  [[nodiscard]] std::size_t at_once() const noexcept {
    constexpr std::int64_t kGoalNs = 100'000;
    return static_cast<std::size_t>(std::clamp<std::int64_t>(kGoalNs / (mean_ns_ + 1), 1, kMost));
  }
  // A piece took `ns`. One that was held up, perhaps because its thread lost its core, counts as a few.
  void add(std::int64_t ns) noexcept { mean_ns_ += (std::min(ns, kLongest * (mean_ns_ + 1)) - mean_ns_) / kMemory; }

 private:
  static constexpr std::int64_t kMemory = 8;   // the number of pieces that the mean covers
  static constexpr std::int64_t kLongest = 8;  // times the mean

  std::int64_t mean_ns_ = 1'000'000;
};

// Two reads of one sample under way at the same time. Either exactly one of them hands bytes on, the first to have
// them, or exactly one reports the sample as bad, the last to give up. Any thread may call any member.
class HedgedRead {
 public:
  enum class Side : std::uint8_t { first, second };

  // `retry`: reads of the first side that failed before the one under way. From an emulated store the second side draws
  // the same failures, so that which samples are bad does not depend on which side is quicker.
  explicit HedgedRead(std::uint32_t retry) noexcept : retry_(retry) {}
  [[nodiscard]] std::uint32_t retry() const noexcept { return retry_; }

  [[nodiscard]] bool is_won() const {
    const std::lock_guard lock(mutex_);
    return won_;
  }

  // A side has its bytes. True for the first, which hands them on; the other drops its own.
  [[nodiscard]] bool win() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(won_, true);
  }

  // A side gives up, for this reason. Returns the first side's reason once both have given up; nothing if the other has
  // won or may still win. Call once for each side.
  [[nodiscard]] std::optional<std::string> give_up(Side side, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (side == Side::first) reason_ = std::move(reason);
    if (std::exchange(one_gave_up_, true) && !won_) return reason_;
    return std::nullopt;
  }

 private:
  const std::uint32_t retry_;
  mutable std::mutex mutex_;
  bool won_ = false;
  bool one_gave_up_ = false;
  std::string reason_;
};

// What one reader holds: requests that it has taken, the read under way, and samples that it has read but not handed
// over yet. If slow reads are hedged, another thread watches it: when the read under way is slow, the rest is taken
// away, so that nothing else waits for it, and its sample is read a second time.
class Workload {
 public:
  using Clock = std::chrono::steady_clock;

  // `watched`: another thread calls the members for the watching thread; otherwise no lock is
  // taken.
  explicit Workload(bool watched) : watched_(watched) { read_.reserve(ChunkSize::kMost); }

  // --- its reader ---
  // Puts requests here, at most ChunkSize::kMost. REQUIRES: none is left here.
  void assign(std::span<const ReadRequest> requests);
  // Takes the next request and begins its read; nothing when none is left.
  [[nodiscard]] std::optional<ReadRequest> next();
  // Takes the requests that are left; returns their number. REQUIRES: room for ChunkSize::kMost.
  std::size_t take_rest(std::span<ReadRequest> out);
  // pause(): the read waits for something other than the store. resume(): it is back in the store,
  // after `retry` failures.
  void pause();
  void resume(std::uint32_t retry);
  // This read is the second side of a hedged read, and is not hedged itself.
  void join(std::shared_ptr<HedgedRead> hedged);
  // The other side has won the hedged read under way.
  [[nodiscard]] bool is_lost() const;
  // The read has ended and can no longer be hedged. Returns its hedged read, if there is one, which
  // decides what happens to the sample. Otherwise the sample is kept with the others that were
  // read.
  [[nodiscard]] std::shared_ptr<HedgedRead> end(EncodedSample& sample);
  [[nodiscard]] std::shared_ptr<HedgedRead> end();
  void keep(EncodedSample sample);
  // Puts what was read into `out`. REQUIRES: out.empty().
  void take_read(std::vector<EncodedSample>& out);

  // --- one thread that watches ---
  struct Watch {
    bool is_slow = false;
    bool may_hedge = false;   // slow, and not read by another thread
    std::uint64_t order = 0;  // of the read
    Clock::time_point look_again = Clock::time_point::max();
  };
  // A read is slow when two looks find it in the store for `slow_after`: a single look may be late together with the
  // reader, because the cores are busy.
  [[nodiscard]] Watch watch(Clock::time_point now, std::chrono::nanoseconds slow_after);
  // Moves what waits for the read under way to `requests` and `samples`.
  void take_waiting(std::vector<ReadRequest>& requests, std::vector<EncodedSample>& samples);
  struct Hedge {
    ReadRequest request;
    std::shared_ptr<HedgedRead> hedged;
  };
  // Hedges the read under way, unless it has ended since it was seen to be slow.
  [[nodiscard]] std::optional<Hedge> hedge();

 private:
  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    return watched_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }
  void begin(std::uint32_t retry);
  [[nodiscard]] std::shared_ptr<HedgedRead> finish() noexcept;

  const bool watched_;
  mutable std::mutex mutex_;
  std::array<ReadRequest, ChunkSize::kMost> requests_{};
  std::size_t first_ = 0;  // requests_[first_ .. last_) are left
  std::size_t last_ = 0;
  std::vector<EncodedSample> read_;
  // The read under way.
  ReadRequest request_;
  std::uint32_t retry_ = 0;
  bool in_store_ = false;
  bool suspected_ = false;  // one look found it slow
  Clock::time_point since_;
  std::shared_ptr<HedgedRead> hedged_;
};

}  // namespace forebay::read

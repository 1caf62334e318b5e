#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "pace.hpp"
#include "race.hpp"
#include "read_request.hpp"

namespace forebay {

// What one reader holds: requests that it has taken, the read under way, and samples that it has read but not handed
// over yet. If slow reads are hedged, another thread watches it: when the read under way is slow, the rest is taken
// away, so that nothing else waits for it, and its sample is read a second time.
class Workload {
 public:
  using Clock = std::chrono::steady_clock;

  // `watched`: other threads call the members meant for them; otherwise no lock is taken.
  explicit Workload(bool watched) : watched_(watched) { read_.reserve(Pace::kMost); }

  // --- its reader ---
  // Puts requests here, at most Pace::kMost. REQUIRES: none is left here.
  void assign(std::span<const ReadRequest> requests);
  // Takes the next request and begins its read; nothing when none is left.
  [[nodiscard]] std::optional<ReadRequest> next();
  // Takes the requests that are left; returns their number. REQUIRES: room for Pace::kMost.
  std::size_t take_rest(std::span<ReadRequest> out);
  // The read waits for something other than the store; it asks the store again, after `retry` failures.
  void pause();
  void resume(std::uint32_t retry);
  // This read is the second side of a race, and is not hedged itself.
  void join(std::shared_ptr<Race> race);
  // The other side has won the race of the read under way.
  [[nodiscard]] bool is_lost() const;
  // The read has ended and will not be hedged any more. Returns its race, if there is one, which decides what becomes
  // of the sample. Otherwise the sample is kept with the others that were read.
  [[nodiscard]] std::shared_ptr<Race> end(EncodedSample& sample);
  [[nodiscard]] std::shared_ptr<Race> end();
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
    std::shared_ptr<Race> race;
  };
  // Starts a race for the read under way, unless it has ended since it was seen to be slow.
  [[nodiscard]] std::optional<Hedge> hedge();

 private:
  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    return watched_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }
  void begin(std::uint32_t retry);
  [[nodiscard]] std::shared_ptr<Race> finish() noexcept;

  const bool watched_;
  mutable std::mutex mutex_;
  std::array<ReadRequest, Pace::kMost> requests_{};
  std::size_t first_ = 0;  // of requests_ that are left
  std::size_t last_ = 0;
  std::vector<EncodedSample> read_;
  // The read under way.
  ReadRequest request_;
  std::uint32_t retry_ = 0;
  bool in_store_ = false;
  bool suspected_ = false;  // one look found it slow
  Clock::time_point since_;
  std::shared_ptr<Race> race_;
};

}  // namespace forebay

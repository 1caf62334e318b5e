#include "census.hpp"

#include <string>
#include <thread>
#include <utility>

#include <forebay/error.hpp>

namespace forebay {
namespace {

std::size_t usable_lag(const Communicator& communicator, std::size_t lag) {
  if (lag + 1 > Communicator::kLanes)
    throw ConfigError("mpi.lag = " + std::to_string(lag) + " is too large: at most " +
                      std::to_string(Communicator::kLanes - 1));
  return communicator.size() == 1 ? 0 : lag;
}

}  // namespace

Census::Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting)
    : communicator_(communicator),
      lag_(usable_lag(communicator, lag)),
      while_waiting_(std::move(while_waiting)),
      places_(lag_ + 1) {}

void Census::post(const Ballot& ballot) {
  const std::size_t lane = posted_ % places_.size();
  Place& place = places_[lane];
  const Progress& progress = ballot.progress;
  place = {.values = {ballot.stop ? 1 : 0, ballot.error ? 1 : 0, ballot.epoch_done ? 1 : 0, ballot.new_bad,
                      ballot.fresh, progress.ready, progress.produced, progress.now_ns, progress.blocked_ns},
           .epoch = ballot.epoch,
           .bad_round = ballot.bad_round};
  ++posted_;
  if (communicator_.size() > 1) communicator_.start_reduction(lane, place.values, kMinima);
}

const Tally* Census::due() {
  last_wait_ = {};
  return posted_ - taken_ > lag_ ? take_oldest() : nullptr;
}

const Tally* Census::rest() {
  last_wait_ = {};
  return posted_ > taken_ ? take_oldest() : nullptr;
}

const Tally* Census::take_oldest() {
  const std::size_t lane = taken_ % places_.size();
  if (communicator_.size() > 1) wait_for(lane);
  const Place& place = places_[lane];
  const auto& [stops, errors, epochs_done, new_bad, fresh, ready, produced, now_ns, blocked_ns] = place.values;
  tally_ = {.step = taken_,
            .stops = stops,
            .errors = errors,
            .epochs_done = epochs_done,
            .new_bad = new_bad,
            .fresh = fresh,
            .least = {.ready = ready, .produced = produced, .now_ns = now_ns, .blocked_ns = blocked_ns},
            .epoch = place.epoch,
            .bad_round = place.bad_round};
  ++taken_;
  return &tally_;
}

void Census::wait_for(std::size_t lane) {
  if (communicator_.test(lane)) return;
  // Spinning would take a core from this rank's decoders, and on a crowded node from the rank that is behind.
  constexpr int kYields = 32;
  constexpr std::chrono::microseconds kSleep{50};
  const auto start = std::chrono::steady_clock::now();
  for (int polls = 0; !communicator_.test(lane); ++polls) {
    if (while_waiting_) while_waiting_();
    if (polls < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
  last_wait_ = std::chrono::steady_clock::now() - start;
}

}  // namespace forebay

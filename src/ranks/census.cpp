#include "census.hpp"

#include <string>
#include <thread>
#include <utility>

#include <forebay/error.hpp>

namespace forebay {
namespace {

std::size_t usable_lag(const Communicator& communicator, std::size_t lag) {
  if (lag > Census::kMostLag)
    throw ConfigError("mpi.lag = " + std::to_string(lag) + " is too large: at most " +
                      std::to_string(Census::kMostLag));
  return communicator.size() == 1 ? 0 : lag;
}

}  // namespace

Census::Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting)
    : communicator_(communicator),
      lag_(usable_lag(communicator, lag)),
      while_waiting_(std::move(while_waiting)),
      places_(lag_ + 1) {}

void Census::post(const Ballot& ballot) {
  const std::size_t channel = posted_ % places_.size();
  Place& place = places_[channel];
  const Progress& progress = ballot.progress;
  place = {.values = {ballot.stop ? 1 : 0, ballot.error ? 1 : 0, ballot.left ? 1 : 0, ballot.idle ? 1 : 0,
                      ballot.worn ? 1 : 0, ballot.served, ballot.samples, ballot.new_bad, ballot.fresh, progress.ready,
                      progress.produced, progress.now_ns, progress.blocked_ns, -ballot.uses},
           .epoch = ballot.epoch,
           .bad_round = ballot.bad_round};
  ++posted_;
  if (communicator_.size() > 1) communicator_.start_reduction(channel, place.values, kMinima);
}

bool Census::others_went_on() {
  const std::size_t channel = (posted_ - 1) % places_.size();
  return communicator_.test(channel) &&
         places_[channel].values[kLeft] < static_cast<std::int64_t>(communicator_.size());
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
  const std::size_t channel = taken_ % places_.size();
  if (communicator_.size() > 1) last_wait_ = wait_for(communicator_, channel, while_waiting_);
  const Place& place = places_[channel];
  const auto& [stops, errors, left, idle, worn, served, samples, new_bad, fresh, ready, produced, now_ns, blocked_ns,
               uses] = place.values;
  tally_ = {.step = taken_,
            .stops = stops,
            .errors = errors,
            .left = left,
            .idle = idle,
            .worn = worn,
            .served = served,
            .samples = samples,
            .new_bad = new_bad,
            .fresh = fresh,
            .uses = -uses,
            .least = {.ready = ready, .produced = produced, .now_ns = now_ns, .blocked_ns = blocked_ns},
            .epoch = place.epoch,
            .bad_round = place.bad_round};
  ++taken_;
  return &tally_;
}

std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting) {
  if (communicator.test(channel)) return {};
  // Spinning would take a core from this rank's decoders, and on a crowded node from the rank that is behind.
  constexpr int kYields = 32;
  constexpr std::chrono::microseconds kSleep{50};
  const auto start = std::chrono::steady_clock::now();
  for (int polls = 0; !communicator.test(channel); ++polls) {
    if (while_waiting) while_waiting();
    if (polls < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
  return std::chrono::steady_clock::now() - start;
}

}  // namespace forebay

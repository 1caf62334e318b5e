// One reduction of 14 integers per step and rank, on lag + 1 channels in rotation: the one posted
// at step k is waited for at step k + lag, when it has normally been complete for long. On the
// trainer's thread; the arrays are members, because MPI writes into them after post() has returned,
// so nothing may move them while a reduction is open.
//
// The order of values is fixed by three tables below, and the reduction adds the first ones and
// takes the least of the last kMinima: a figure that is added goes into the table of its kind, on
// all ranks alike.

#include "census.hpp"

#include <string>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"

namespace forebay::ranks {
namespace {

// A single rank needs no lag, since it has nobody to wait for.
std::size_t usable_lag(const Communicator& communicator, std::size_t lag) {
  if (lag > Census::kMostLag)
    throw ConfigError("mpi.lag = " + std::to_string(lag) + " is too large: at most " +
                      std::to_string(Census::kMostLag));
  return communicator.size() == 1 ? 0 : lag;
}

// The values of a report, in this order: first those that are summed over the ranks, then those of
// which the minimum is taken. The maximum of uses is a minimum with the sign inverted.
constexpr std::array kCounts{
    std::pair(&RankReport::stop, &JobReport::stops), std::pair(&RankReport::error, &JobReport::errors),
    std::pair(&RankReport::left, &JobReport::left), std::pair(&RankReport::idle, &JobReport::idle),
    std::pair(&RankReport::at_reuse_cap, &JobReport::at_reuse_cap)};
constexpr std::array kSums{
    std::pair(&RankReport::served, &JobReport::served), std::pair(&RankReport::samples, &JobReport::samples),
    std::pair(&RankReport::new_bad, &JobReport::new_bad), std::pair(&RankReport::fresh, &JobReport::fresh)};
constexpr std::array kLeast{&Progress::ready, &Progress::produced, &Progress::now_ns, &Progress::blocked_ns};
constexpr std::size_t kMinima = kLeast.size() + 1;  // and the uses
constexpr std::size_t kLeft = 2;                    // place of `left`

}  // namespace

Census::Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting)
    : communicator_(communicator),
      lag_(usable_lag(communicator, lag)),
      while_waiting_(std::move(while_waiting)),
      sent_(lag_ + 1) {}

void Census::post(const RankReport& report) {
  const std::size_t channel = posted_ % sent_.size();
  Sent& sent = sent_[channel];
  static_assert(kCounts.size() + kSums.size() + kMinima == std::tuple_size_v<decltype(sent.values)>);
  std::int64_t* value = sent.values.data();
  for (const auto& [mine, job] : kCounts) *value++ = report.*mine ? 1 : 0;
  for (const auto& [mine, job] : kSums) *value++ = report.*mine;
  for (const auto figure : kLeast) *value++ = report.progress.*figure;
  *value = -report.uses;
  sent.epoch = report.epoch;
  sent.bad_round = report.bad_round;
  ++posted_;
  if (communicator_.size() > 1) communicator_.start_reduction(channel, sent.values, kMinima);
}

// The last posted report says how many left with it: if not all did, somebody made that step.
bool Census::others_went_on() {
  const std::size_t channel = (posted_ - 1) % sent_.size();
  return communicator_.test(channel) && sent_[channel].values[kLeft] < static_cast<std::int64_t>(communicator_.size());
}

const JobReport* Census::due() {
  last_wait_ = {};
  return posted_ - taken_ > lag_ ? take_oldest() : nullptr;
}

const JobReport* Census::rest() {
  last_wait_ = {};
  return posted_ > taken_ ? take_oldest() : nullptr;
}

const JobReport* Census::take_oldest() {
  const std::size_t channel = taken_ % sent_.size();
  if (communicator_.size() > 1) last_wait_ = wait_for(communicator_, channel, while_waiting_);
  const Sent& sent = sent_[channel];
  const std::int64_t* value = sent.values.data();
  for (const auto& [mine, job] : kCounts) job_.*job = *value++;
  for (const auto& [mine, job] : kSums) job_.*job = *value++;
  for (const auto figure : kLeast) job_.least.*figure = *value++;
  job_.uses = -*value;
  job_.step = taken_++;
  job_.epoch = sent.epoch;
  job_.bad_round = sent.bad_round;
  return &job_;
}

std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting) {
  if (communicator.test(channel)) return {};
  const auto start = std::chrono::steady_clock::now();
  for (int polls = 0; !communicator.test(channel); ++polls) {
    if (while_waiting) while_waiting();
    pause_before_look(polls);
  }
  return std::chrono::steady_clock::now() - start;
}

}  // namespace forebay::ranks

// Brings the batches of a source into the ring. A reader thread takes a batch and hands it on as a
// sample of one pixel whose fields are the batch. At the end of the epoch it hands on one more
// sample, so that a trainer that waits for a batch wakes up and learns of the end, and then waits
// for the next begin(). That extra sample may be reused like any other, so it has the bytes of the
// last batch. If there was none, it must not be reused, and the policy serves fresh until it has
// left the pool.
//
// Batches are served in the order of the source because one thread reads and one makes batches.
// A reader takes several requests at once where reads are short, and hands over what it has read at
// the end: a batch that is there would wait for one that is not. So a read lasts at least kAlone.
//
// Everything that may fail for lack of memory is done before the source is called, because a batch
// that it has made cannot be requested again.

#include "source_intake.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"

namespace forebay::feeder {
namespace {

using namespace std::chrono_literals;

// Above the 50 us from where down read::ChunkSize lets a thread take two, and the noise of clocks and wakings. Chosen.
constexpr auto kAlone = 200us;

}  // namespace

SourceIntake::SourceIntake(std::shared_ptr<BatchSource> source, std::uint64_t pool)
    : source_(std::move(source)), pool_(pool), ended_ns_(steady_ns()) {
  for (const Field& field : source_->fields()) {
    if (field.kind != FieldKind::array) {
      throw ConfigError("the field \"" + field.name + "\" of a source of batches is of kind " +
                        std::string(to_string(field.kind)) + ": it must be an array, with the shape of a whole batch");
    }
    last_.emplace_back(field.sample_bytes());
  }
}

Sample SourceIntake::sample(std::uint64_t /*id*/) const {
  Sample pixel;
  pixel.encoding = Encoding::raw;
  pixel.width = pixel.height = pixel.channels = 1;
  return pixel;
}

void SourceIntake::read(std::uint64_t /*id*/, ReadTarget& target) const {
  const auto ready = std::chrono::steady_clock::now() + kAlone;
  target.reserve(1)[0] = std::byte{0};
  take();
  std::this_thread::sleep_until(ready);
}

void SourceIntake::read_field(std::uint64_t /*id*/, std::size_t field, ReadTarget& target) const {
  const std::span<std::byte> to = target.reserve(last_[field].size());
  if (has_batch_) {
    try {
      fill(field);
    } catch (...) {
      end(taken_ - 1, std::current_exception());
    }
  }
  std::ranges::copy(last_[field], to.begin());
}

void SourceIntake::begin(std::uint64_t passed_over) {
  paused_s_ += seconds(std::chrono::nanoseconds(steady_ns() - ended_ns_));
  is_at_end_ = is_waiting_ = false;
  end_ = UINT64_MAX;
  const std::lock_guard lock(mutex_);
  passed_over_ = passed_over;
  is_open_ = true;
  changed_.notify_all();
}

void SourceIntake::give_up() const {
  const std::lock_guard lock(mutex_);
  has_given_up_ = true;
  changed_.notify_all();
}

bool SourceIntake::serve() noexcept {
  const std::uint64_t place = served_.fetch_add(1);
  if (place != end_.load(std::memory_order_acquire)) return false;
  ended_ns_ = steady_ns();
  if (!has_last_) fresh_until_ = place + 1 + pool_;
  return true;
}

std::optional<std::string> SourceIntake::state(std::uint64_t back) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t served = served_;
  if (served <= back) return std::nullopt;
  return states_[served - 1 - back - first_state_];
}

// A feeder that is closing gets end samples without waiting; they are never served.
void SourceIntake::take() const {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_ || has_given_up_; });
    has_batch_ = !has_given_up_;
    if (!has_batch_) return;
    for (; first_state_ + kMostBack + 1 < served_; ++first_state_) states_.pop_front();
    states_.emplace_back();
  }
  try {
    pass_over();
    has_batch_ = source_->next();
    std::string state = source_->state();
    const std::lock_guard lock(mutex_);
    states_.back() = std::move(state);
  } catch (...) {
    end(taken_, std::current_exception());
  }
  if (!has_batch_ && !has_failed_) end(taken_, nullptr);
  ++taken_;
}

void SourceIntake::pass_over() const {
  for (std::uint64_t passed = 0; passed_over_ > 0; ++passed, --passed_over_) {
    if (!source_->next()) {
      throw Error("the source's epoch has ended after " + std::to_string(passed) + " of the " +
                  std::to_string(passed + passed_over_) +
                  " batches that the state passes over: resume with the source that it is of, in the same order");
    }
    has_passed_ = true;
    for (std::size_t field = 0; passed_over_ == 1 && field < last_.size(); ++field) fill(field);
  }
}

void SourceIntake::fill(std::size_t field) const {
  source_->fill(field, last_[field]);
  has_last_ = true;
}

// After a failure nothing can be served again: part of a batch may have been written.
void SourceIntake::end(std::uint64_t place, std::exception_ptr error) const noexcept {
  has_batch_ = false;
  if (error) {
    has_last_ = false;
    has_failed_ = true;
    error_ = std::move(error);
  }
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  is_at_end_ = true;  // before its sample is there
  end_.store(place, std::memory_order_release);
}

Decision SourcePolicy::decide(const Signals& signals) {
  if (intake_->served_ < intake_->fresh_until_) return Decision::fresh;
  if (intake_->is_at_end_ && signals.depth == 0) return Decision::fresh;  // the end comes at once
  return policy_->decide(known(signals));
}

// As at the end of a run: Signals::depth.
Signals SourcePolicy::known(Signals signals) const noexcept {
  signals.now_s -= intake_->paused_s_;
  if (intake_->is_at_end_ && signals.depth > 0) signals.depth = signals.capacity;
  return signals;
}

}  // namespace forebay::feeder

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/policy.hpp>
#include <forebay/source_feeder.hpp>

namespace forebay::feeder {

// What the reading thread takes from the source of a SourceFeeder: an endless dataset whose samples are the batches,
// each read once and in turn. What does not belong to a Dataset is for the trainer's thread.
class SourceIntake final : public Dataset {
 public:
  // `pool`: batches that may be served again. Throws ConfigError where a field is not an array.
  SourceIntake(std::shared_ptr<BatchSource> source, std::uint64_t pool);

  [[nodiscard]] std::string_view format() const noexcept override { return "source"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{1} << 40; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override;
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "batch " + std::to_string(id); }
  // Which id is asked for does not matter: the next one of the source is always meant.
  void read(std::uint64_t id, ReadTarget& target) const override;
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return source_->fields(); }
  // By the thread that called read() just before, for the same batch. The end has the bytes of the last batch; what the
  // source throws makes this batch the end.
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override;
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  // Nothing tells the batches of one source from those of another: state() is for the same source.
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

  // The source's epoch has begun. So many batches of it are passed over; the end has the bytes of the last of them
  // until there is another.
  void begin(std::uint64_t passed_over);
  // Nothing is waited for any more, and nothing taken. Any thread.
  void give_up() const;
  // The next of those that were taken is served, for the first time. True for the end.
  [[nodiscard]] bool serve() noexcept;
  // After the end: the source threw, instead of ending.
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
  // After a failure: throws what the source threw, once.
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  // After the end: it has the bytes of a batch, of any epoch.
  [[nodiscard]] bool has_last() const noexcept { return has_last_; }
  // The end was served here, and other ranks still have batches. Until begin() nothing fresh is to be served.
  void wait_for_others() noexcept { is_waiting_ = true; }
  [[nodiscard]] bool is_waiting() const noexcept { return is_waiting_; }
  // Nothing is to be expected of the source now: its epoch is over, or it has just passed a batch over.
  [[nodiscard]] bool is_paused() const noexcept { return is_at_end_ || has_passed_.exchange(false); }
  // The source's state after what was served `back` places before the last, at most kMostBack; nothing where that was
  // before this object was made.
  [[nodiscard]] std::optional<std::string> state(std::uint64_t back) const;

  static constexpr std::uint64_t kMostBack = 2;

 private:
  friend class SourcePolicy;

  void take() const;
  void pass_over() const;
  void fill(std::size_t field) const;
  void end(std::uint64_t place, std::exception_ptr error) const noexcept;

  std::shared_ptr<BatchSource> source_;
  std::uint64_t pool_;
  std::vector<std::string> classes_;
  std::vector<Skipped> skipped_;

  // Reading is const for a Dataset, whose samples never change; of this one each is read once.
  mutable std::mutex mutex_;  // of what follows up to states_; no step of the trainer takes it
  mutable std::condition_variable changed_;
  mutable bool is_open_ = false;
  mutable bool has_given_up_ = false;
  mutable std::deque<std::string> states_;  // after batches that are not served, and the last that are
  mutable std::uint64_t first_state_ = 0;   // the place of the first of them

  // The reading thread's, between begin() and the end.
  mutable std::uint64_t passed_over_ = 0;
  mutable std::uint64_t taken_ = 0;
  mutable bool has_batch_ = false;
  mutable std::vector<std::vector<std::byte>> last_;  // batch, by field

  // Written before end_, whose release pairs with the acquire of serve().
  mutable std::exception_ptr error_;
  mutable bool has_failed_ = false;
  mutable std::atomic<bool> has_last_{false};
  mutable std::atomic<std::uint64_t> end_{UINT64_MAX};  // the place of the epoch's end, once it is known
  std::atomic<std::uint64_t> served_{0};

  // The last batch has come: saving the ready ones would gain nothing.
  mutable std::atomic<bool> is_at_end_{false};
  mutable std::atomic<bool> has_passed_{false};

  // The trainer's thread alone.
  bool is_waiting_ = false;
  std::uint64_t fresh_until_ = 0;  // so many served: until then a reuse might serve an end that has no bytes
  double paused_s_ = 0;            // time between epochs, in which nothing was wanted of the source
  std::int64_t ended_ns_;
};

// The policy of a feeder of a source: for it time in which the source was paused does not count as the trainer's.
class SourcePolicy final : public Policy {
 public:
  // REQUIRES: neither is null.
  SourcePolicy(std::unique_ptr<Policy> policy, std::shared_ptr<const SourceIntake> intake)
      : policy_(std::move(policy)), intake_(std::move(intake)) {}

  [[nodiscard]] Decision decide(const Signals& signals) override;
  void served(Decision decision, const Signals& signals) override { policy_->served(decision, known(signals)); }

 private:
  [[nodiscard]] Signals known(Signals signals) const noexcept;

  std::unique_ptr<Policy> policy_;
  std::shared_ptr<const SourceIntake> intake_;
};

}  // namespace forebay::feeder

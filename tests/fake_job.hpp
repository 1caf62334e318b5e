#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <forebay/communicator.hpp>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "ranks/coordinator.hpp"
#include "support.hpp"

namespace forebay::testing {

// A job of several ranks inside one process, for tests without MPI. Each rank's communicator is
// used by one thread; or one thread uses all of them in turn, and then must not make blocking
// calls.
class FakeJob {
 public:
  // `tardiness`: a complete sum stays hidden from a rank for up to this many of its polls, at
  // random.
  explicit FakeJob(std::uint32_t ranks, std::uint32_t tardiness = 0, std::uint64_t seed = 1) : tardiness_(tardiness) {
    for (std::uint32_t r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r, seed + r));
  }

  [[nodiscard]] Communicator& rank(std::uint32_t r) { return *ranks_.at(r); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  // Reductions that a rank has started so far.
  [[nodiscard]] std::size_t started(std::uint32_t r) {
    const std::lock_guard lock(mutex_);
    return ranks_.at(r)->started;
  }

  // A rank's polls so far that found its reduction incomplete.
  [[nodiscard]] std::size_t fruitless_polls(std::uint32_t r) {
    const std::lock_guard lock(mutex_);
    return ranks_.at(r)->fruitless_polls;
  }

  // Runs `body` for every rank, each on its own thread.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (auto& rank : ranks_) threads.emplace_back([&body, &rank] { body(*rank); });
    for (auto& thread : threads) thread.join();
  }

  // A second handle of the same rank. A test may override members to change its behaviour.
  struct SameRank : Communicator {
    explicit SameRank(Communicator& named) : rank_(named) {}

    [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_.rank(); }
    [[nodiscard]] std::uint32_t size() const noexcept override { return rank_.size(); }
    [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override { return rank_.duplicate(); }
    void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) override {
      rank_.start_reduction(channel, values, minima);
    }
    [[nodiscard]] bool test(std::size_t channel) override { return rank_.test(channel); }
    [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) override {
      return rank_.broadcast(std::move(bytes), root);
    }
    [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override { return rank_.all_gather(text); }
    [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
      return rank_.share_on_node(bytes);
    }
    [[nodiscard]] std::uint64_t gathers() const noexcept override { return rank_.gathers(); }
    void while_waiting(std::function<void()> hook) override { rank_.while_waiting(std::move(hook)); }
    void tell(std::string_view text) override { rank_.tell(text); }
    [[nodiscard]] std::optional<Notice> listen() override { return rank_.listen(); }
    void note_failure(std::string_view cause) override { rank_.note_failure(cause); }
    void abort(std::string_view cause) override { rank_.abort(cause); }
    void abort_at_end(std::string_view cause) override { rank_.abort_at_end(cause); }
    bool close(double timeout_s) override { return rank_.close(timeout_s); }

    Communicator& rank_;
  };

 private:
  struct Sum {
    std::vector<std::int64_t> total;
    std::uint32_t arrived = 0;
  };

  struct Gather {
    std::vector<std::string> texts;
    std::uint32_t arrived = 0;
  };

  struct Open {
    bool open = false;
    std::size_t sum = 0;
    std::span<std::int64_t> values;
    std::uint32_t hidden_for = 0;
  };

  struct Rank final : Communicator {
    Rank(FakeJob& whole, std::uint32_t number, std::uint64_t seed)
        : job(whole), mine(number), random(seed), channels(kChannels) {}

    [[nodiscard]] std::uint32_t rank() const noexcept override { return mine; }
    [[nodiscard]] std::uint32_t size() const noexcept override { return job.size(); }
    // Another handle of the same rank: from then on at most one of the two may be used.
    [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override {
      return std::make_unique<SameRank>(*job.ranks_.at(mine));
    }
    void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) override {
      const std::lock_guard lock(job.mutex_);
      Open& open = channels.at(channel);
      if (open.open) throw std::logic_error("channel in use");
      open = {.open = true, .sum = started++, .values = values};
      if (job.tardiness_ > 0) open.hidden_for = static_cast<std::uint32_t>(random() % (job.tardiness_ + 1));
      if (job.sums_.size() <= open.sum) job.sums_.push_back({std::vector<std::int64_t>(values.size()), 0});
      Sum& sum = job.sums_[open.sum];
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t& total = sum.total.at(i);
        const bool is_minimum = i + minima >= values.size();
        total = !is_minimum ? total + values[i] : sum.arrived == 0 ? values[i] : std::min(total, values[i]);
      }
      ++sum.arrived;
    }
    [[nodiscard]] bool test(std::size_t channel) override {
      const std::lock_guard lock(job.mutex_);
      Open& open = channels.at(channel);
      if (!open.open) return true;
      const Sum& sum = job.sums_[open.sum];
      if (sum.arrived < size()) {
        ++fruitless_polls;
        return false;
      }
      if (open.hidden_for > 0) {
        --open.hidden_for;
        return false;
      }
      for (std::size_t i = 0; i < open.values.size(); ++i) open.values[i] = sum.total[i];
      open.open = false;
      return true;
    }
    [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) override {
      const std::string text = all_gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).at(root);
      const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
      return {begin, begin + text.size()};
    }
    [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override {
      std::unique_lock lock(job.mutex_);
      const std::size_t number = gathered++;
      if (job.gathers_.size() <= number) job.gathers_.push_back({std::vector<std::string>(size()), 0});
      Gather& gather = job.gathers_[number];  // a deque, so the reference stays valid
      gather.texts[mine] = text;
      if (++gather.arrived == size()) job.changed_.notify_all();
      job.changed_.wait(lock, [&] { return gather.arrived == size(); });
      return gather.texts;
    }
    [[nodiscard]] std::uint64_t gathers() const noexcept override { return gathered; }
    void while_waiting(std::function<void()> /*hook*/) override {}
    // Each rank is on its own node.
    [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
      return solo_communicator()->share_on_node(bytes);
    }
    void tell(std::string_view text) override {
      const std::lock_guard lock(job.mutex_);
      for (auto& other : job.ranks_)
        if (other->mine != mine) other->notices.push_back({.rank = mine, .text = std::string(text)});
    }
    [[nodiscard]] std::optional<Notice> listen() override {
      const std::lock_guard lock(job.mutex_);
      if (notices.empty()) return std::nullopt;
      Notice notice = std::move(notices.front());
      notices.pop_front();
      return notice;
    }
    void note_failure(std::string_view /*cause*/) override {}
    void abort(std::string_view /*cause*/) override {}
    void abort_at_end(std::string_view /*cause*/) override {}
    bool close(double /*timeout_s*/) override { return true; }

    FakeJob& job;
    std::uint32_t mine;
    std::mt19937_64 random;
    std::vector<Open> channels;
    std::size_t started = 0;
    std::size_t fruitless_polls = 0;
    std::size_t gathered = 0;
    std::deque<Notice> notices;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sum> sums_;
  std::deque<Gather> gathers_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint32_t tardiness_;
};

inline const ranks::BadLimit kAnyBad{
    .allowed = std::numeric_limits<std::uint64_t>::max(), .skipped = 0, .samples = 100, .quarantine = ""};

// How the run of one rank ended.
struct Outcome {
  ranks::Verdict verdict = ranks::Verdict::proceed;
  std::uint64_t steps = 0;  // batches served
  std::uint64_t epochs = 0;
  std::uint64_t bad = 0;
  std::string cause;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Drives a coordinator as a feeder does, for at most `kTooMany` steps. `serve(coordinator, step)`
// stands for the rest of next(), and returns {stop requested, epochs served} for the following
// step.
template <typename Serve>
Outcome drive(Communicator& communicator, const ranks::RunPlan& plan, const ranks::BadLimit& limit, Serve&& serve) {
  constexpr std::uint64_t kTooMany = 100'000;
  ranks::Coordinator coordinator(communicator, plan, limit);
  std::pair<bool, std::uint64_t> said{false, 0};
  for (std::uint64_t step = 0;; ++step) {
    const bool is_done = said.second > coordinator.epochs_completed();
    const ranks::Verdict verdict =
        coordinator.step({.served = is_done ? 1 : 0, .stop = said.first, .to_serve = communicator.size()});
    if (verdict != ranks::Verdict::proceed || step == kTooMany)
      return {verdict, step, coordinator.epochs_completed(), coordinator.bad_samples(), coordinator.cause().text};
    said = serve(coordinator, step);
  }
}

}  // namespace forebay::testing

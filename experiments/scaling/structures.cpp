// What one rank of a job of any size keeps and computes for the others, without MPI: a process of its own, so that its
// memory can be told; prints one JSON object.
//   bench_structures RANKS BATCHES    a job of so many ranks, with so many batches in an epoch
// The ranks that are not there answer at once: they have planned nothing, and a quarter of them is slow.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/order.hpp>

#include "job/resume.hpp"
#include "measure.hpp"
#include "order/job_state.hpp"
#include "order/ledger.hpp"
#include "order/schedule.hpp"
#include "ranks/coordinator.hpp"
#include "ranks/rebalancer.hpp"

namespace {

using namespace forebay;
using namespace forebay::order;
using namespace forebay::ranks;
constexpr std::size_t kLag = 2;
constexpr std::size_t kAhead = 16 + kLag + 1;  // queue.capacity = 16
constexpr std::uint64_t kSteps = 3 * Rebalancer::kPeriod;
constexpr std::size_t kCounts = 4;  // of each rank in an exchange

// Of this thread's processor, whatever else runs.
double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Rank 0 of a job whose other ranks only exist in what they say.
class OneOfMany final : public Communicator {
 public:
  explicit OneOfMany(std::uint32_t ranks) : ranks_(ranks) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return ranks_; }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override { return std::make_unique<OneOfMany>(ranks_); }
  void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t) override {
    sent_ += values.size_bytes();
    if (channel == kChannels - 1) answer(values);
  }
  [[nodiscard]] bool test(std::size_t) override { return true; }
  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t) override { return bytes; }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override {
    ++gathers_;
    return std::vector<std::string>(ranks_, std::string(text));
  }
  [[nodiscard]] std::uint64_t gathers() const noexcept override { return gathers_; }
  void while_waiting(std::function<void()>) override {}
  [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
    return solo_communicator()->share_on_node(bytes);
  }
  void tell(std::string_view) override {}
  [[nodiscard]] std::optional<Notice> listen() override { return std::nullopt; }
  void note_failure(std::string_view) override {}
  void abort(std::string_view) override {}
  void abort_at_end(std::string_view) override {}
  bool close(double) override { return true; }

  // Whose ranges the others speak of. Must outlive this.
  void know(const Ledger& ledger) noexcept { ledger_ = &ledger; }
  // Bytes of all reductions so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  // Every fourth rank has served a quarter of what the others have.
  void answer(std::span<std::int64_t> values) {
    for (std::size_t i = 0; i < ledger_->ranges().size(); ++i) {
      const BatchRange& range = ledger_->ranges()[i];
      if (range.owner != 0) values[i] = static_cast<std::int64_t>(range.begin);
    }
    const auto counts = values.last(kCounts * ranks_);
    const std::int64_t steps = counts[1];
    for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
      const auto count = counts.subspan(kCounts * rank, kCounts);
      count[0] = rank % 4 == 0 ? steps / 4 : steps;
      count[1] = steps;
      count[2] = static_cast<std::int64_t>(kAhead);
    }
  }

  std::uint32_t ranks_;
  const Ledger* ledger_ = nullptr;
  std::uint64_t gathers_ = 0;
  std::uint64_t sent_ = 0;
};

struct Job {
  Job(std::uint32_t ranks, const Partition& partition, const Order& order)
      : communicator(ranks),
        schedule(order, Ledger(partition), 0),
        coordinator(communicator, {.epochs = partition.epochs, .lag = kLag},
                    {.allowed = UINT64_MAX, .skipped = 0, .samples = 0, .quarantine = ""}),
        rebalancer(communicator, schedule, Communicator::kChannels - 1, kLag) {
    communicator.know(schedule.ledger());
  }

  // As Ranks and the feeder do, without a trainer. Returns the time that it took.
  double step() {
    const auto begun = processor_s();
    while (plan.size() < kAhead && rebalancer.may_plan(plan.size(), count.fresh)) {
      const std::optional<BatchRef> batch = schedule.next();
      if (!batch) break;
      plan.push_back(*batch);
    }
    if (coordinator.step({.served = 0, .to_serve = UINT64_MAX}) != Verdict::proceed)
      throw std::runtime_error("it ended");
    count.backlog = plan.size();
    (void)rebalancer.step(coordinator.heard(), coordinator.epochs_completed(), count);
    ++count.offered;
    if (!plan.empty()) {
      plan.pop_front();
      ++count.fresh;
    }
    return processor_s() - begun;
  }

  OneOfMany communicator;
  Schedule schedule;
  Coordinator coordinator;
  Rebalancer rebalancer;
  std::deque<BatchRef> plan;
  RankCount count;
};

// What all ranks leave, as they would hand it to gather_state().
JobState state_of(const Job& job, const Partition& partition) {
  JobState state;
  state.ranks = partition.ranks;
  state.batches = partition.batches;
  state.virtual_shards = partition.shards;
  state.opened = job.schedule.ledger().opened();
  state.left.assign(job.schedule.ledger().ranges().begin(), job.schedule.ledger().ranges().end());
  tidy(state.left);
  return state;
}

void run(std::uint32_t ranks, std::uint64_t batches) {
  std::uint32_t shards = 1024;
  while (shards < ranks) shards *= 2;
  const Order order({.samples = batches, .batch_size = 1, .seed = 17});
  const Partition partition{.batches = batches, .shards = shards, .ranks = ranks};
  const auto before = bench::process_memory();
  const auto begun = processor_s();
  auto job = std::make_unique<Job>(ranks, partition, order);
  const double construct = processor_s() - begun;
  std::vector<double> steps;
  for (std::uint64_t i = 0; i < kSteps; ++i) steps.push_back(job->step());
  const double slowest = *std::ranges::max_element(steps);
  const auto after = bench::process_memory();
  const std::uint64_t reports = (13 * sizeof(std::int64_t)) * kSteps;
  const std::uint64_t exchanges = (kSteps - 1) / Rebalancer::kPeriod;

  const JobState state = state_of(*job, partition);
  const auto wrote = processor_s();
  const std::string text = to_text(state);
  const double write = processor_s() - wrote;
  const auto read = processor_s();
  JobState again = parse_state(text, "the state");
  const Ledger ledger(partition, again.epochs, again.opened, std::move(again.left), ranks);
  const double resume = processor_s() - read;
  std::printf(
      "{\"ranks\": %u, \"shards\": %u, \"batches\": %llu, \"own_bytes\": %.0f, \"peak_bytes\": %.0f, "
      "\"construct_s\": %.6f, \"step_ns\": %.0f, \"exchange_s\": %.6f, \"exchange_bytes\": %llu, "
      "\"ranges\": %zu, \"state_bytes\": %zu, \"state_write_s\": %.6f, \"state_read_s\": %.6f}\n",
      ranks, shards, static_cast<unsigned long long>(batches), 1e6 * (after.own - before.own),
      1e6 * (after.peak - before.peak), construct, 1e9 * bench::percentile(steps, 0.5), slowest,
      static_cast<unsigned long long>((job->communicator.sent() - reports) / exchanges), state.left.size(), text.size(),
      write, resume);
  if (ledger.ranges().empty()) throw std::runtime_error("nothing is left");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: bench_structures RANKS BATCHES");
    run(static_cast<std::uint32_t>(std::stoul(argv[1])), std::stoull(argv[2]));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/order.hpp>

#include "fake_job.hpp"
#include "job/resume.hpp"
#include "order/job_state.hpp"
#include "order/schedule.hpp"
#include "ranks/coordinator.hpp"
#include "ranks/rebalancer.hpp"
#include "taken.hpp"
#include "targets.hpp"

using namespace forebay::job;
using namespace forebay::order;
using namespace forebay::ranks;

// What the other ranks of a job say: sums, texts and notices that a sound rank, or another program,
// might send.
namespace forebay::fuzz {
namespace {

constexpr std::uint32_t kRanks = 3;

// The second of three ranks. The fuzzer plays the others. Nothing ever waits.
class Hearsay final : public testing::FakeJob::SameRank {
 public:
  Hearsay(testing::FakeJob& job, Taken& taken) : SameRank(job.rank(1)), taken_(taken) {}

  void start_reduction(std::size_t /*channel*/, std::span<std::int64_t> values, std::size_t /*minima*/) override {
    const std::size_t changes = taken_.below(16);  // the others mostly have nothing to add
    if (changes > 8) return;
    for (std::size_t i = 0; i < changes && !values.empty(); ++i) {
      std::int64_t& value = values[taken_.number<std::uint16_t>() % values.size()];
      if (taken_.flag())
        value = taken_.number<std::int64_t>();
      else  // wraps around, like processors
        value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) +
                                          static_cast<std::uint64_t>(taken_.number<std::int8_t>()));
    }
  }
  [[nodiscard]] bool test(std::size_t /*channel*/) override { return true; }
  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> /*bytes*/, std::uint32_t /*root*/) override {
    const std::string_view text = taken_.text();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override {
    ++gathers_;
    std::vector<std::string> all;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      all.emplace_back(rank == this->rank() || taken_.flag() ? text : taken_.text());
    }
    return all;
  }
  [[nodiscard]] std::uint64_t gathers() const noexcept override { return gathers_; }
  void tell(std::string_view /*text*/) override {}
  [[nodiscard]] std::optional<Notice> listen() override {
    // No rank waits for a notice for ever: a rank that no longer says anything has left.
    if (taken_.is_at_end())
      return ++silence_ % 64 == 0 ? std::optional(Notice{.rank = 0, .text = "left 0 0 gone"}) : std::nullopt;
    if (!taken_.flag()) return std::nullopt;
    const std::uint32_t rank = taken_.flag() ? 0 : 2;
    return Notice{.rank = rank, .text = std::string(taken_.text())};
  }

 private:
  Taken& taken_;
  std::uint64_t gathers_ = 0;
  std::uint64_t silence_ = 0;
};

bool coordinate(Communicator& job, Taken& taken) {
  const RunPlan plan{.epochs = 1 + taken.below(4), .steps = taken.below(32), .lag = 1 + taken.below(3)};
  Coordinator coordinator(job, plan, {.allowed = taken.below(4), .skipped = 0, .samples = 100, .quarantine = {}});
  if (taken.flag()) coordinator.end_each_epoch();
  for (std::uint64_t step = 0; step < 64; ++step) {
    if (taken.below(16) == 1) coordinator.report_bad(taken.byte());
    if (taken.below(64) == 1) coordinator.report_error("this rank's own");
    const Verdict verdict =
        coordinator.step({.served = static_cast<std::int64_t>(step), .stop = taken.below(32) == 1, .to_serve = 8});
    if (verdict == Verdict::failed && coordinator.cause().text.empty())
      throw std::logic_error("a failure without a cause");
    if (verdict != Verdict::proceed && verdict != Verdict::epoch_ended) return true;
    (void)coordinator.interrupted(false);
  }
  coordinator.leave("enough", false, false);
  return true;
}

// A rank serves no batch twice, whatever the others say.
bool exchange(Communicator& job, Taken& taken) {
  const std::uint64_t batches = 1 + taken.number<std::uint16_t>() % 300;
  const Order order(OrderOptions{.samples = batches, .batch_size = 1, .shuffle = false});
  const Partition partition{.batches = batches,
                            .shards = static_cast<std::uint32_t>(kRanks + taken.below(16)),
                            .ranks = kRanks,
                            .epochs = 2,
                            .contiguous = taken.flag()};
  const bool keeps_order = taken.flag();
  Schedule schedule(order, Ledger(partition), job.rank());
  Rebalancer rebalancer(job, schedule, Communicator::kChannels - 1, 1 + taken.below(3));
  if (keeps_order) rebalancer.keep_epoch_order();
  std::set<std::pair<std::uint64_t, std::uint64_t>> planned;
  RankCount count;
  JobReport heard;
  heard.idle = 1;
  std::uint64_t completed = 0;
  for (int step = 0; step < 200; ++step) {
    (void)rebalancer.step(taken.flag() ? &heard : nullptr, completed, count);
    if (taken.below(64) == 1 && completed < partition.epochs) ++completed;
    for (std::size_t i = taken.below(4); i > 0 && rebalancer.may_plan(count.backlog, count.fresh); --i) {
      const std::optional<BatchRef> batch = schedule.next();
      if (!batch) break;
      const bool is_one = batch->epoch < partition.epochs && batch->batch < batches;
      if (!is_one || !planned.emplace(batch->epoch, batch->batch).second) {
        throw std::logic_error("a batch that does not exist, or twice");
      }
      ++count.fresh;
      ++count.offered;
    }
  }
  return true;
}

// A state made from what all ranks said is valid, or is refused.
bool gather(Communicator& job, Taken& taken) {
  const Partition partition{.batches = 40, .shards = 8, .ranks = kRanks, .epochs = 2};
  JobState state;
  state.ranks = kRanks;
  state.batches = partition.batches;
  state.virtual_shards = partition.shards;
  state.samples = 40;
  state.dataset = "0123456789abcdef";
  state.policy = "block";
  state.opened = 1 + taken.below(2);
  RankPart mine;
  mine.steps = taken.byte();
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    mine.left.push_back({.epoch = 0, .begin = 1, .end = 5, .shard = shard, .owner = 1});
  }
  state = gather_state(std::move(state), mine, job);
  if (parse_state(to_text(state), "gathered") != state) throw std::logic_error("a state that reads differently");
  return true;
}

bool resume(Communicator& job) {
  const auto saved = share_state({}, job);
  return saved && !saved->text.empty();
}

}  // namespace

bool use_ranks(std::string_view input) {
  Taken taken(input);
  testing::FakeJob job(kRanks);
  Hearsay rank(job, taken);
  try {
    switch (taken.below(4)) {
      case 0: return coordinate(rank, taken);
      case 1: return exchange(rank, taken);
      case 2: return gather(rank, taken);
      default: return resume(rank);
    }
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> ranks_seeds() {
  using namespace std::string_literals;
  std::string steps(300, '\x0e');
  const std::string idle = "\0\x18\1"s + std::string(23, '\0');  // one step made, nothing left, nothing lost
  return {"\0\1\2"s + steps, "\1\x20\0\3\0\1\1"s + steps, "\1\x20\1\3\1\0\1"s + steps, "\2\0\1"s + idle + idle,
          "\3\4s{}\n"s};
}

}  // namespace forebay::fuzz

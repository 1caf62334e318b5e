// The rule by which batches are handed over, compared with its plain definition, and in jobs of
// 100,000 ranks.
#include <forebay/order.hpp>

#include "fake_job.hpp"
#include "job/resume.hpp"
#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "order/schedule.hpp"
#include "ranks/lockstep.hpp"
#include "ranks/rebalancer.hpp"
#include "test.hpp"

namespace forebay::test_rebalance {

using namespace forebay::job;
using namespace forebay::order;
using namespace forebay::ranks;

namespace {

using testing::FakeJob;

std::uint64_t size_of(const BatchRange& range) { return range.end - range.begin; }

// A plain implementation of rebalance() that looks at every range for each rank that gives, and at
// every rank for each that takes.
class Definition {
 public:
  Definition(std::vector<BatchRange>& ranges, const std::vector<RankWork>& ranks, const RebalanceRule& rule)
      : ranges_(ranges), ranks_(ranks), rule_(rule) {
    for (const RankWork& rank : ranks) {
      work_.push_back(rank.backlog);
      paces_ += rank.pace;
      fastest_ = std::max(fastest_, rank.pace);
    }
  }

  void partition() {
    if (paces_ == 0) return;
    const std::uint64_t frontier = std::ranges::max(ranks_, {}, &RankWork::frontier).frontier;
    std::optional<std::uint64_t> dealt;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::uint64_t epoch = ranges_[i].epoch;
      if (dealt == epoch || epoch > std::max(rule_.last, frontier + 1)) continue;
      dealt = epoch;
      deal_epoch(epoch);
    }
    ranges_.insert(ranges_.end(), cut_.begin(), cut_.end());
  }

 private:
  void deal_epoch(std::uint64_t epoch) {
    std::vector<std::uint64_t> movable(ranks_.size(), 0);
    for (const BatchRange& range : ranges_) {
      if (range.epoch == epoch) movable[range.owner] += size_of(range);
    }
    for (std::size_t rank = 0; rank < work_.size(); ++rank) work_[rank] += movable[rank];
    const std::uint64_t total = std::accumulate(work_.begin(), work_.end(), std::uint64_t{0});
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
      const std::uint64_t fair = share(total, rank, 0);
      const std::uint64_t few =
          rule_.keep_epoch_order ? std::max<std::uint64_t>(1, 4 * ranks_[rank].pace / fastest_) : 4;
      if (work_[rank] <= fair + std::max(fair / 4, few)) continue;
      give(rank, epoch, total, std::min(work_[rank] - fair, movable[rank]));
    }
  }

  [[nodiscard]] std::uint64_t share(std::uint64_t total, std::uint32_t rank, std::uint64_t rest) const {
    return (total * ranks_[rank].pace + rest) / paces_;  // small numbers only
  }

  void give(std::uint32_t giver, std::uint64_t epoch, std::uint64_t total, std::uint64_t surplus) {
    std::vector<BatchRange*> own = in_order(giver, epoch);
    while (surplus > 0 && !own.empty()) {
      std::uint32_t taker = 0;
      std::uint64_t room = 0;
      for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
        if (rule_.keep_epoch_order && ranks_[rank].frontier > epoch) continue;
        const std::uint64_t fair = share(total, rank, rule_.keep_epoch_order ? paces_ / 2 : 0);
        if (fair <= work_[rank] + room) continue;
        taker = rank;
        room = fair - work_[rank];
      }
      if (room == 0) return;
      const std::uint64_t moved = give_to(taker, std::min(surplus, room), own);
      work_[giver] -= moved;
      work_[taker] += moved;
      surplus -= moved;
    }
  }

  // Sorted so that the range whose batch the rank would serve last comes last.
  [[nodiscard]] std::vector<BatchRange*> in_order(std::uint32_t rank, std::uint64_t epoch) {
    std::vector<BatchRange*> own;
    for (BatchRange& range : ranges_) {
      if (range.epoch == epoch && range.owner == rank && size_of(range) > 0) own.push_back(&range);
    }
    std::ranges::sort(own, {}, [&](const BatchRange* range) {
      const std::uint64_t shard = range->shard;
      return rule_.contiguous ? std::tuple(shard, range->end) : std::tuple(range->end, shard);
    });
    return own;
  }

  std::uint64_t give_to(std::uint32_t taker, std::uint64_t most, std::vector<BatchRange*>& own) {
    std::uint64_t moved = 0;
    while (moved < most && !own.empty()) {
      BatchRange& last = *own.back();
      const std::uint64_t wanted = most - moved;
      if (size_of(last) > wanted && ranges_.size() + cut_.size() < rule_.most_ranges) {
        last.end -= wanted;
        cut_.push_back({last.epoch, last.end, last.end + wanted, last.shard, taker});
        return most;
      }
      if (size_of(last) <= wanted) {
        last.owner = taker;
        moved += size_of(last);
      }
      own.pop_back();
    }
    return moved;
  }

  std::vector<BatchRange>& ranges_;
  const std::vector<RankWork>& ranks_;
  RebalanceRule rule_;
  std::uint64_t paces_ = 0;
  std::uint64_t fastest_ = 0;
  std::vector<std::uint64_t> work_;
  std::vector<BatchRange> cut_;
};

TEST_CASE("it does what its definition says, whatever the ranges, the paces and the rule") {
  constexpr std::uint64_t seed = 23;
  CAPTURE(seed);
  Random random(seed);
  std::size_t moved = 0;
  for (int round = 0; round < (testing::kSanitized ? 300 : 3000); ++round) {
    CAPTURE(round);
    const std::uint64_t count = 1 + random.below(24);
    std::vector<RankWork> ranks;
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      ranks.push_back({.backlog = random.below(6),
                       .pace = random.below(3) == 0 ? random.below(20) : 100 + random.below(4),
                       .frontier = random.below(3)});
    }
    std::vector<BatchRange> ranges;
    const std::uint64_t epochs = 1 + random.below(4);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      for (std::uint32_t shard = 0; shard < 30; ++shard) {
        const std::uint64_t end = random.below(12);
        const auto owner = static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(count) : shard % count);
        ranges.push_back({epoch, random.below(end + 1), end, shard, owner});
      }
    }
    const RebalanceRule rule{.keep_epoch_order = random.below(2) == 0,
                             .contiguous = random.below(2) == 0,
                             .last = random.below(4),
                             .most_ranges = ranges.size() + (random.below(2) == 0 ? 1000 : random.below(4))};
    std::vector<BatchRange> expected = ranges;
    Definition(expected, ranks, rule).partition();
    const std::vector<BatchRange> before = ranges;
    rebalance(ranges, ranks, rule);
    REQUIRE(ranges == expected);
    moved += ranges != before ? 1 : 0;
  }
  CHECK(moved > 100);
}

// The plain definition would take 10^10 steps.
TEST_CASE("with 100,000 ranks, of which a quarter is slow, nobody keeps much more than its pace deserves") {
  constexpr std::uint32_t kRanks = testing::kSanitized ? 12'500 : 100'000;
  constexpr std::uint32_t kShards = testing::kSanitized ? 16'384 : 131'072;
  const Partition partition{.batches = std::uint64_t{200} * kShards, .shards = kShards, .ranks = kRanks};
  Ledger ledger(partition);
  std::vector<BatchRange> ranges(ledger.ranges().begin(), ledger.ranges().end());
  std::vector<RankWork> ranks(kRanks, {.backlog = 19, .pace = RankWork::kOne, .frontier = 0});
  for (std::uint32_t rank = 0; rank < kRanks; rank += 4) ranks[rank].pace = RankWork::kOne / 4;
  rebalance(ranges, ranks, {.most_ranges = Ledger::cut_up_to(partition)});
  CHECK(ranges.size() <= Ledger::cut_up_to(partition));
  std::vector<std::uint64_t> work(kRanks, 19);
  std::uint64_t total = 0;
  for (const BatchRange& range : ranges) {
    if (range.epoch > 0) continue;
    work[range.owner] += size_of(range);
    total += size_of(range);
  }
  CHECK(total == partition.batches);
  const std::uint64_t of_fast = (total + 19ULL * kRanks) / (kRanks - kRanks / 4 * 3 / 4);
  std::size_t too_much = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const std::uint64_t fair = rank % 4 == 0 ? of_fast / 4 : of_fast;
    too_much += work[rank] > fair * 5 / 4 + 5 ? 1 : 0;
  }
  CHECK(too_much == 0);
  ledger.replace(ranges);
  CHECK(ledger.ranges().size() <= Ledger::most_ranges(partition));
}

// Reports that ranks of one build never send.

// A job in which another rank's values are added to this one's.
struct Misled final : FakeJob::SameRank {
  Misled(Communicator& named, std::size_t at, std::int64_t more) : SameRank(named), at_(at), more_(more) {}

  void start_reduction(std::size_t /*channel*/, std::span<std::int64_t> values, std::size_t /*minima*/) override {
    values[at_] += more_;
  }
  [[nodiscard]] bool test(std::size_t /*channel*/) override { return true; }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override {
    return {std::string(text), std::string(text.substr(0, text.size() - static_cast<std::size_t>(more_)))};
  }

  std::size_t at_;
  std::int64_t more_;
};

TEST_CASE("sums that ranks of one build do not have are refused") {
  const Order order(OrderOptions{.samples = 100, .batch_size = 1, .shuffle = false});
  const auto exchanged = [&](std::size_t range, std::int64_t more) {
    FakeJob job(2);
    Misled misled(job.rank(0), range, more);
    Schedule schedule(order, Ledger({.batches = 100, .shards = 16, .ranks = 2, .epochs = 2}), 0);
    for (int i = 0; i < 3; ++i) (void)schedule.next();
    Rebalancer rebalancer(misled, schedule, Communicator::kChannels - 1, 1);
    JobReport heard;
    heard.idle = 1;
    return testing::error_of([&] {
      for (std::uint64_t step = 0; step < 2 * Rebalancer::kShortest; ++step) (void)rebalancer.step(&heard, 0, {});
      return 0;
    });
  };
  CHECK(exchanged(1, 2).empty());  // rank 1 has planned two batches of its first shard, which has seven
  for (const auto& [range, more] :
       {std::pair<std::size_t, std::int64_t>{1, -1}, {1, 8}, {1, 1'000'000}, {0, 1}, {0, -1}}) {
    CAPTURES(range, more);
    CHECK(testing::contains(exchanged(range, more), "start all ranks with the same build"));
  }
}

TEST_CASE("what is not served can be gathered from ranks of one build alone") {
  FakeJob job(2);
  const RankPart mine{
      .steps = 1, .fresh_samples = 4, .left = {{.epoch = 0, .begin = 1, .end = 2, .shard = 0, .owner = 0}}};
  const auto gathered = [&](std::int64_t missing) {
    Misled misled(job.rank(0), 0, missing);
    return testing::error_of([&] { return gather_state({}, mine, misled).left.size(); });
  };
  CHECK(gathered(0).empty());
  CHECK(gathered(sizeof(BatchRange)).empty());
  for (const std::int64_t missing : {1, 47}) {
    CHECK(testing::contains(gathered(missing), "start all ranks with the same build"));
  }
}

// The signals of a policy in lockstep: reports in, signals out; and every batch that they promise
// is ready on every rank.

constexpr QueueOptions kQueue{.capacity = 8, .pool = 2, .max_leases = 2};

JobReport report(std::uint64_t step, std::int64_t fresh, const Progress& least) {
  JobReport made;
  made.step = step;
  made.fresh = fresh;
  made.least = least;
  return made;
}

TEST_CASE("the first steps: one batch that all ranks have, then nothing is known") {
  Lockstep lockstep(3, 2, kQueue, Pick::least_used);
  CHECK(lockstep.signals(nullptr).depth == 1);
  CHECK(lockstep.signals(nullptr).uses == 0);
  lockstep.served(Decision::fresh);
  CHECK(lockstep.fresh() == 1);
  CHECK(lockstep.signals(nullptr).depth == 0);
  CHECK(lockstep.signals(nullptr).uses == 1);
  lockstep.served(Decision::reuse);
  const JobReport first = report(0, 0, {.ready = 5, .produced = 5, .now_ns = 2'000'000'000, .blocked_ns = 500'000'000});
  const Signals known = lockstep.signals(&first);
  CHECK(known.step == 2);
  CHECK(known.depth == 4);  // one of five was taken since
  CHECK(known.produced == 5);
  CHECK(known.capacity == 8);
  CHECK(known.uses == 2);
  CHECK(known.now_s == doctest::Approx(2));
  CHECK(known.blocked_s == doctest::Approx(0.5));
}

TEST_CASE("ranks that have nothing left keep nobody waiting") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  const JobReport drained = report(0, 0, {.now_ns = 1, .blocked_ns = 0});
  CHECK(lockstep.signals(&drained).depth == 8);
  CHECK(lockstep.signals(&drained).produced == 1);
}

TEST_CASE(
    "ranks that have served all open epochs count again once they have something, and the job then knows no less") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  std::int64_t step = -1;
  const auto hears = [&](const Progress& least) {
    ++step;
    const JobReport heard = report(static_cast<std::uint64_t>(step), step == 0 ? 0 : 2, least);
    const Signals known = lockstep.signals(&heard);
    lockstep.served(Decision::reuse);
    return known;
  };
  CHECK(hears({.ready = 4, .produced = 10}).produced == 10);
  CHECK(hears({.ready = 3, .produced = 50}).produced == 50);  // idle ranks do not count
  CHECK(hears({.ready = 1, .produced = 12}).produced == 50);
  const Signals all_idle = hears({.ready = Progress::kIdle});
  CHECK(all_idle.depth == 0);
  CHECK(all_idle.produced == 50);
}

TEST_CASE("a rank that was idle when it spoke is left out of what is heard of that step") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  const auto is_left_out = [&](std::uint64_t step) {
    const JobReport heard = report(step, 0, {.ready = 2, .produced = 2});
    return lockstep.is_left_out(&heard);
  };
  lockstep.reports({.ready = 3, .produced = 3});
  CHECK_FALSE(is_left_out(0));
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  lockstep.reports({.ready = Progress::kIdle});
  CHECK(is_left_out(0));
  CHECK(is_left_out(1));
  CHECK_FALSE(is_left_out(2));
  CHECK_FALSE(lockstep.is_left_out(nullptr));
}

TEST_CASE("a disagreement of the ranks is an error") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  const JobReport first = report(0, 0, {.ready = 2, .produced = 2});
  (void)lockstep.signals(&first);
  lockstep.served(Decision::fresh);
  const JobReport second = report(1, 1, {.ready = 2, .produced = 3});  // the other rank reused at step 0
  CHECK_THROWS_WITH_AS((void)lockstep.signals(&second), doctest::Contains("have not decided alike before step 1"),
                       Error);
}

TEST_CASE("whatever the ranks' pace, a batch that the signals promise is there on every rank") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(key64(std::uint64_t{99}, seed));
    const std::size_t ranks = 1 + random.below(4);
    const std::size_t lag = ranks == 1 ? 0 : 1 + random.below(5);
    const auto capacity = static_cast<std::int64_t>(lag + 1 + random.below(8));
    QueueOptions queue = kQueue;
    queue.capacity = capacity;
    Lockstep lockstep(static_cast<std::uint32_t>(ranks), lag, queue, Pick::least_used);
    std::vector<std::int64_t> ready(ranks, 1);
    std::vector<double> pace(ranks);
    for (double& one : pace) one = random.uniform(0.1, 1.5);
    std::deque<JobReport> reports;
    std::int64_t late = 0;
    for (std::uint64_t step = 0; step < 500; ++step) {
      const Progress least{.ready = std::ranges::min(ready), .produced = 1};
      reports.push_back(report(step, lockstep.fresh() * static_cast<std::int64_t>(ranks), least));
      const Signals known = lockstep.signals(reports.size() > lag ? &reports.front() : nullptr);
      if (reports.size() > lag) reports.pop_front();
      const Decision decision = known.depth > 0 ? Decision::fresh : Decision::reuse;
      lockstep.served(decision);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (decision == Decision::fresh && ready[rank]-- == 0) ++late;
        if (random.uniform() < pace[rank]) ready[rank] = std::min(capacity, ready[rank] + 1);
      }
    }
    CHECK(late == 0);
    CHECK(lockstep.fresh() > 20);
  }
}

}  // namespace
}  // namespace forebay::test_rebalance

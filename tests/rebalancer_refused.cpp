// What ranks of one build never say to each other.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/order.hpp>

#include "fake_job.hpp"
#include "job/resume.hpp"
#include "order/schedule.hpp"
#include "ranks/rebalancer.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::FakeJob;

// The sums of a job in which another rank adds to those of this one.
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
    Rebalancer rebalancer(misled, schedule, Communicator::kChannels - 1, 1, false);
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
    CAPTURE(range);
    CAPTURE(more);
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

}  // namespace
}  // namespace forebay

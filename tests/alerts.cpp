#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/error.hpp>

#include "eventually.hpp"
#include "fake_job.hpp"
#include "ranks/liveness.hpp"

using forebay::Communicator;
using forebay::Liveness;
using forebay::Patience;
using forebay::testing::eventually;
using forebay::testing::FakeJob;

namespace {

// Words to this rank that are there now.
std::size_t words(Communicator& rank) {
  std::size_t count = 0;
  while (rank.listen()) ++count;
  return count;
}

TEST_CASE("a rank that has heard that another wants to end does not say so as well") {
  FakeJob job(3);
  Liveness first(job.rank(0), {});
  Liveness second(job.rank(1), {});
  first.alert();
  CHECK(second.alerted());
  second.alert();
  CHECK(words(job.rank(2)) == 1);
  CHECK(words(job.rank(0)) == 0);
}

TEST_CASE("where all of many ranks want to end few say so, and where one does it says so before long") {
  constexpr std::uint32_t kRanks = 300;
  FakeJob job(kRanks);
  std::vector<std::unique_ptr<Liveness>> ranks;
  for (std::uint32_t r = 0; r < kRanks; ++r) ranks.push_back(std::make_unique<Liveness>(job.rank(r), Patience{}));
  SUBCASE("all") {
    for (std::uint32_t r = kRanks; r-- > 0;) ranks[r]->alert();
    for (std::uint32_t r = 1; r < kRanks; ++r) CHECK(ranks[r]->alerted());
    for (auto& rank : ranks) rank->alert();
    CHECK(words(job.rank(0)) == 0);
  }
  SUBCASE("the last") {
    ranks.back()->alert();
    CHECK(words(job.rank(0)) == 0);
    SUBCASE("while it waits for reports") {
      CHECK(eventually([&] {
        ranks.back()->wait_for_reports();
        return words(job.rank(0)) == 1;
      }));
    }
    SUBCASE("when it goes where it is not asked again") {
      ranks.back()->alert_at_once();
      CHECK(words(job.rank(0)) == 1);
    }
  }
}

TEST_CASE("a rank that has left hears that others resume the step, the first included") {
  for (const std::uint64_t steps : {0U, 3U}) {
    FakeJob job(2);
    Liveness leaver(job.rank(0), {});
    Liveness other(job.rank(1), {});
    for (std::uint64_t step = 0; step <= steps; ++step) {
      leaver.begin(step);
      other.begin(step);
    }
    CHECK_FALSE(leaver.has_gone_on(0));
    other.go_on();
    leaver.leave(steps, "rank 0 has left");
    CHECK(leaver.has_gone_on(steps));
    CHECK_FALSE(leaver.has_gone_on(steps + 1));
    CHECK(leaver.cause() == "rank 0 has left");
    CHECK_THROWS_WITH_AS((void)other.alerted(), "rank 0 has left", forebay::Error);
    CHECK(other.cause() == "rank 0 has left");
  }
}

}  // namespace

// The parts of hedging: which reads are slow, how many second reads there may be, and which read wins.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/file_io.hpp"
#include "dataset_support.hpp"
#include "read/hedging.hpp"
#include "read/workload.hpp"
#include "support.hpp"

namespace {

using namespace forebay;
using namespace std::chrono_literals;
using Clock = Workload::Clock;

}  // namespace

TEST_CASE("read times: a quantile is right within a step, and old reads are forgotten") {
  ReadTimes times;
  CHECK(times.quantile(0.5) == 0ns);
  for (int i = 1; i <= 1000; ++i) times.add(std::chrono::microseconds(10 * i));
  CHECK(times.gather() == 1000);
  CHECK(times.gather() == 0);
  for (const double share : {0.1, 0.5, 0.95, 1.0}) {
    const auto exact = std::chrono::duration<double, std::micro>(10'000 * share);
    CAPTURE(share);
    CHECK(times.quantile(share) >= exact);
    CHECK(times.quantile(share) <= 1.26 * exact);
  }
  for (int i = 0; i < 20'000; ++i) {
    times.add(100us);
    if (i % 100 == 0) times.gather();
  }
  times.gather();
  CHECK(times.weight() <= 2048);
  CHECK(times.quantile(0.95) < 130us);
  ReadTimes odd;
  odd.add(-5ns);
  odd.add(0ns);
  CHECK(odd.gather() == 2);
  CHECK(odd.quantile(1) <= 2us);
  odd.add(24h);
  odd.gather();
  CHECK(odd.quantile(1) > 60s);
}

TEST_CASE("the rule: slow is three times the 95th percentile, and at least a floor") {
  HedgeRule rule;
  rule.update();
  CHECK(rule.slow_after() == HedgeRule::kUnknown);
  for (int i = 0; i < 100; ++i) rule.add(50us);
  rule.update();
  CHECK(rule.slow_after() == HedgeRule::kFloor);

  HedgeRule far;
  for (int i = 0; i < 1000; ++i) far.add(i % 400 == 0 ? 1s : 40ms);
  far.update();
  CHECK(far.slow_after() >= 120ms);  // constant latency is not slow
  CHECK(far.slow_after() <= 160ms);

  HedgeRule often;  // every tenth read is slow, which is normal here
  for (int i = 0; i < 1000; ++i) often.add(i % 10 == 0 ? 1s : 40ms);
  often.update();
  CHECK(often.slow_after() >= 3s);
}

TEST_CASE("the rule: at most a twentieth more reads, earned by first reads only, and not saved up without limit") {
  HedgeRule rule;
  std::uint64_t seconds = 0;
  constexpr std::uint64_t kReads = 10'000;
  for (std::uint64_t i = 0; i < kReads; ++i) {
    rule.add(1ms);
    rule.update();
    while (rule.may_hedge()) {
      rule.hedge();
      ++seconds;
      rule.add(1ms);
      rule.update();
      REQUIRE(20 * seconds <= i + 1);
    }
  }
  CHECK(seconds >= kReads / 20 - 2);
  for (std::uint64_t i = 0; i < kReads; ++i) rule.add(1ms);
  rule.update();
  std::uint64_t at_once = 0;
  for (; rule.may_hedge(); ++at_once) rule.hedge();
  CHECK(at_once >= 1);
  CHECK(at_once <= 16);
}

TEST_CASE("a hedged read is won once, or lost by both sides with the first side's reason") {
  using Side = HedgedRead::Side;
  HedgedRead won(0);
  CHECK_FALSE(won.is_won());
  CHECK(won.win());
  CHECK(won.is_won());
  CHECK_FALSE(won.win());
  CHECK_FALSE(won.give_up(Side::second, "late"));
  HedgedRead saved(0);
  CHECK_FALSE(saved.give_up(Side::first, "torn"));
  CHECK(saved.win());
  for (const bool first_is_last : {false, true}) {
    HedgedRead lost(0);
    CHECK_FALSE(lost.give_up(first_is_last ? Side::second : Side::first, first_is_last ? "" : "torn"));
    const auto verdict = lost.give_up(first_is_last ? Side::first : Side::second, first_is_last ? "torn" : "");
    REQUIRE(verdict);
    CHECK(*verdict == "torn");
  }
  for (int round = 0; round < 200; ++round) {
    HedgedRead hedged(0);
    std::atomic<int> winners{0};
    {
      std::jthread other([&] { winners += hedged.win() ? 1 : 0; });
      winners += hedged.win() ? 1 : 0;
    }
    REQUIRE(winners == 1);
  }
}

TEST_CASE("a workload: slow at the second look only, hedged once, and relieved of what waits") {
  Workload workload(true);
  const std::array<ReadRequest, 3> requests{ReadRequest{.order = 5, .sample = 50}, {.order = 6}, {.order = 7}};
  CHECK_FALSE(workload.watch(Clock::now() + 1h, 10ms).is_slow);  // no read is under way
  workload.assign(requests);
  CHECK(workload.next()->order == 5);
  const auto now = Clock::now();
  CHECK_FALSE(workload.watch(now, 1h).is_slow);
  CHECK(workload.watch(now, 1h).look_again > now);
  CHECK_FALSE(workload.hedge());
  const auto later = now + 1h;
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  const Workload::Watch seen = workload.watch(later, 10ms);
  CHECK(seen.is_slow);
  CHECK(seen.may_hedge);
  CHECK(seen.order == 5);

  std::vector<ReadRequest> left;
  std::vector<EncodedSample> read;
  workload.take_waiting(left, read);
  REQUIRE(left.size() == 2);
  CHECK(left[0].order == 6);
  CHECK_FALSE(workload.hedge()->hedged->is_won());
  CHECK_FALSE(workload.hedge());
  CHECK_FALSE(workload.watch(later, 10ms).may_hedge);
  CHECK(workload.watch(later, 10ms).is_slow);

  EncodedSample sample{.request = requests[0], .bytes = std::vector<std::byte>(3)};
  const auto hedged = workload.end(sample);
  REQUIRE(hedged);
  CHECK(sample.bytes.size() == 3);  // the hedged read decides
  workload.take_waiting(left, read);
  CHECK(read.empty());
  CHECK_FALSE(workload.next());

  const std::array<ReadRequest, 2> more{ReadRequest{.order = 8}, {.order = 9, .hedge = 3}};
  workload.assign(more);
  CHECK(workload.next()->order == 8);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  workload.pause();  // it waits for memory, not for the store
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK_FALSE(workload.hedge());
  workload.resume(1);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK(workload.watch(later, 10ms).is_slow);
  CHECK(workload.hedge()->hedged->retry() == 1);
  CHECK(workload.end());
  CHECK(workload.next()->order == 9);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK(workload.watch(later, 10ms).is_slow);
  CHECK_FALSE(workload.watch(later, 10ms).may_hedge);  // it is a second read itself
}

TEST_CASE("samples on a local disk are not slow; samples elsewhere, named by a list or a link there, may be") {
  const testing::TemporaryDirectory folder;
  if (!is_on_local_disk(folder.path().string())) {
    MESSAGE("skipped: temporary files are on no local disk");
    return;
  }
  const std::string elsewhere = "/proc/version";
  REQUIRE_FALSE(is_on_local_disk(elsewhere));
  testing::write_file(folder / "cat/1.jpg", "jpeg");
  testing::write_file(folder / "dog/2.jpg", "jpeg");
  const auto is_slow = [&](const std::filesystem::path& path) {
    return may_be_slow(path.string(), *build_dataset(testing::options_for(path)));
  };
  CHECK_FALSE(is_slow(folder.path()));
  const std::filesystem::path list = folder / "list.txt";
  std::string entries;
  for (int i = 0; i < 100; ++i) entries += "cat/1.jpg,cat\n";
  testing::write_file(list, entries);
  CHECK_FALSE(is_slow(list));
  testing::write_file(list, entries + "dog/none.jpg,dog\n");  // a missing file does not count
  CHECK_FALSE(is_slow(list));
  std::string others;
  for (int i = 0; i < 100; ++i) others += elsewhere + ",dog\n";
  testing::write_file(list, entries + others);
  CHECK(is_slow(list));
  std::filesystem::create_symlink(elsewhere, folder / "dog/3.jpg");
  CHECK(is_slow(folder.path()));
}

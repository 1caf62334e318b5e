#include <forebay/summary.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "allocation_counter.hpp"
#include "measure/counters.hpp"
#include "screen.hpp"
#include "test.hpp"

// The summary of a run: its JSON, the combination of several ranks, and the counters that it is
// made from.
namespace forebay::test_summary {
namespace {

using namespace forebay::measure;
using doctest::Approx;
using nlohmann::json;

// The keys that the design promises, and further ones.
const std::vector<std::string> kDesignKeys = testing::words(
    "steps fresh reused fresh_fraction wall_s compute_s stall_s au fresh_au images_per_s produce_rate consume_rate "
    "exhausted_steps uses_p50 uses_p99 uses_max adjacent_reuse_fraction bad_samples bad_share epochs bytes_read");
const std::vector<std::string> kExtraKeys = testing::words(
    "startup_s blocked_s census_waits census_wait_s ahead_s dropped_records nvjpeg_samples nvjpeg_fallbacks "
    "hedged_reads hedges_won left_out queue_capacity max_uses bytes_from_cache bytes_from_store cache_share "
    "cache_held cache_bound");

Summary some_summary(std::uint64_t salt) {
  Summary out;
  out.steps = 100 * salt;
  out.fresh = 40 * salt;
  out.reused = 60 * salt;
  out.fresh_fraction = 0.4;
  out.startup_s = 0.1 * static_cast<double>(salt);
  out.wall_s = 10.0 / 3.0 * static_cast<double>(salt);
  out.compute_s = 3.0;
  out.stall_s = out.wall_s - 3.0;
  out.au = 3.0 / out.wall_s;
  out.fresh_au = out.au * 0.4;
  out.images_per_s = 1234.5;
  out.produce_rate = 15.9;
  out.consume_rate = 48.2;
  out.blocked_s = 1e-9;
  out.queue_capacity = 4 * salt;
  out.max_uses = 7 * salt;
  out.census_waits = 2 * salt;
  out.census_wait_s = 0.5 * static_cast<double>(salt);
  out.ahead_s = 0.25 * static_cast<double>(salt);
  out.exhausted_steps = 7;
  out.uses_p50 = 2 * salt;
  out.uses_p99 = 9 * salt;
  out.uses_max = 11 * salt;
  out.adjacent_reuse_fraction = 0.25 * static_cast<double>(salt);
  out.bad_samples = 3;
  out.left_out = 2;
  out.epochs = salt;
  out.bytes_read = std::numeric_limits<std::uint64_t>::max() - salt;
  out.hedged_reads = 70 * salt;
  out.hedges_won = 60 * salt;
  out.nvjpeg_samples = 90 * salt;
  out.nvjpeg_fallbacks = 10 * salt;
  out.dropped_records = 5;
  return out;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> out;
  for (const auto& item : object.items()) out.insert(item.key());
  return out;
}

// The nearest-rank percentile by sorting.
std::uint64_t brute_percentile(std::vector<std::uint64_t> uses, double share) {
  std::sort(uses.begin(), uses.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(uses.size())));
  return uses[rank - 1];
}

StepRecord record(std::uint64_t step, Decision served, double wait_s, double step_s) {
  StepRecord out;
  out.step = step;
  out.served = served;
  out.size = 10;
  out.wait_s = wait_s;
  out.step_s = step_s;
  return out;
}

}  // namespace

TEST_CASE("JSON of a summary has the keys of the design and the documented ones beside them") {
  std::set<std::string> expected(kDesignKeys.begin(), kDesignKeys.end());
  expected.insert(kExtraKeys.begin(), kExtraKeys.end());
  CHECK(keys_of(json::parse(to_json(some_summary(1)))) == expected);

  const std::vector<Summary> ranks{some_summary(1), some_summary(2)};
  const json job = json::parse(to_json(combine(ranks), ranks));
  REQUIRE(job.at("ranks").size() == 2);
  CHECK(keys_of(job.at("ranks").at(1)) == expected);
  expected.insert("ranks");
  CHECK(keys_of(job) == expected);
}

TEST_CASE("a summary survives its JSON exactly") {
  for (const std::uint64_t salt : {1U, 2U, 77U}) {
    const std::string text = to_json(some_summary(salt));
    const Summary back = summary_from_json(text);
    CHECK(to_json(back) == text);
    CHECK(back.bytes_read == some_summary(salt).bytes_read);
    CHECK(back.wall_s == some_summary(salt).wall_s);
  }
}

TEST_CASE("JSON that is not a summary is refused with its key") {
  CHECK_THROWS_AS(static_cast<void>(summary_from_json("")), Error);
  CHECK_THROWS_AS(static_cast<void>(summary_from_json("[1]")), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(summary_from_json("{}")), doctest::Contains("steps"), Error);
  json object = json::parse(to_json(some_summary(1)));
  object["fresh"] = -1;
  CHECK_THROWS_WITH_AS(static_cast<void>(summary_from_json(object.dump())), doctest::Contains("fresh"), Error);
  object["fresh"] = 1;
  object["au"] = "high";
  CHECK_THROWS_WITH_AS(static_cast<void>(summary_from_json(object.dump())), doctest::Contains("au"), Error);
}

TEST_CASE("a job is combined from its ranks") {
  std::vector<Summary> ranks{some_summary(1), some_summary(3)};
  ranks[0].bytes_read = 10;
  ranks[0].hedged_reads = 6;
  ranks[1].hedged_reads = 3;
  ranks[0].hedges_won = 0;
  ranks[1].hedges_won = 2;
  ranks[0].nvjpeg_samples = 7;
  ranks[1].nvjpeg_samples = 5;
  ranks[0].nvjpeg_fallbacks = 4;
  ranks[1].nvjpeg_fallbacks = 3;
  ranks[1].bytes_read = 32;
  ranks[1].bad_samples = 5;  // includes all that rank 0 knows of
  const Summary job = combine(ranks);
  testing::check_figures(json::parse(to_json(job)), R"({
    "steps": 400, "fresh": 160, "reused": 240, "fresh_fraction": 0.4, "wall_s": 6.666667, "compute_s": 3.0,
    "au": 0.45, "fresh_au": 0.18, "images_per_s": 2469.0, "produce_rate": 31.8, "consume_rate": 48.2,
    "census_waits": 8, "census_wait_s": 1.0, "exhausted_steps": 14, "uses_p50": 6, "uses_p99": 27, "uses_max": 33,
    "adjacent_reuse_fraction": 0.625, "bad_samples": 5, "epochs": 1, "bytes_read": 42, "hedged_reads": 9,
    "hedges_won": 2, "nvjpeg_samples": 12, "nvjpeg_fallbacks": 7, "dropped_records": 10
  })");
}

TEST_CASE("combining one rank changes nothing, combining none gives nothing") {
  const std::vector<Summary> one{some_summary(2)};
  const Summary same = combine(one);
  CHECK(same.steps == one[0].steps);
  CHECK(same.au == Approx(one[0].au));
  CHECK(same.wall_s == one[0].wall_s);
  CHECK(to_json(combine({})) == to_json(Summary{}));
}

TEST_CASE("counters add up steps") {
  RunCounters counters;
  StepRecord first = record(0, Decision::fresh, 99.0, 0.0);  // the wait for the first batch is start-up
  first.census_wait_s = 9.0;
  counters.step(first);
  StepRecord behind = record(1, Decision::reuse, 0.5, 2.0);
  behind.census_wait_s = 0.375;
  counters.step(behind);
  StepRecord adjacent = record(2, Decision::reuse, 0.25, 2.0);
  adjacent.adjacent = true;
  counters.step(adjacent);
  StepRecord exhausted = record(3, Decision::fresh, 0.25, 2.0);
  exhausted.exhausted = true;
  counters.step(exhausted);
  counters.finished(2.0, 1.0);

  const Summary facts{.startup_s = 99.5,
                      .blocked_s = 3.5,
                      .bad_samples = 2,
                      .epochs = 1,
                      .bytes_read = 77,
                      .hedged_reads = 5,
                      .hedges_won = 4,
                      .nvjpeg_samples = 8,
                      .nvjpeg_fallbacks = 1,
                      .dropped_records = 4};
  const Summary summary = counters.summary(facts, {});
  testing::check_figures(json::parse(to_json(summary)), R"({
    "steps": 4, "fresh": 2, "reused": 2, "fresh_fraction": 0.5, "compute_s": 8.0, "stall_s": 2.0, "wall_s": 10.0,
    "au": 0.8, "fresh_au": 0.4, "images_per_s": 2.0, "consume_rate": 0.5, "census_waits": 1, "census_wait_s": 0.375,
    "exhausted_steps": 1, "adjacent_reuse_fraction": 0.25, "startup_s": 99.5, "blocked_s": 3.5, "bad_samples": 2,
    "epochs": 1, "bytes_read": 77, "hedged_reads": 5, "hedges_won": 4, "nvjpeg_samples": 8, "nvjpeg_fallbacks": 1,
    "dropped_records": 4
  })");
}

TEST_CASE("a run without steps has a summary of zeros") {
  RunCounters counters;
  counters.finished(1.0, 1.0);
  const json summary = json::parse(to_json(counters.summary({}, {})));
  for (const auto& item : summary.items()) CHECK_MESSAGE(item.value().get<double>() == 0.0, item.key());
}

TEST_CASE("the production rate leaves out start-up, blocked time and what follows the last batch") {
  RunCounters counters;
  auto step = [&, n = std::uint64_t{0}](double t_s, std::uint64_t produced, double blocked_s) mutable {
    StepRecord out = record(n++, Decision::fresh, 0, 0);
    out.t_s = t_s;
    out.produced = produced;
    out.blocked_s = blocked_s;
    counters.step(out);
  };
  step(0, 4, 1.0);
  SUBCASE("between the first step and the last new batch") {
    step(5, 34, 3.0);
    step(12, 64, 5.0);
    step(90, 64, 60.0);
    CHECK(counters.summary({.startup_s = 500}, {}).produce_rate == Approx(60.0 / (12.0 - 4.0)));
  }
  SUBCASE("everything was there before the first step") {
    step(90, 4, 60.0);
    CHECK(counters.summary({.startup_s = 3}, {}).produce_rate == Approx(4.0 / (3.0 - 1.0)));
  }
}

TEST_CASE("percentiles of uses agree with sorting") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto batches = std::uniform_int_distribution<std::size_t>(1, 300)(random);
    const auto most = std::uniform_int_distribution<std::uint64_t>(1, round % 2 == 0 ? 6 : 4096)(random);
    RunCounters counters;
    std::vector<std::uint64_t> all;
    std::vector<std::uint64_t> residents;
    for (std::size_t i = 0; i < batches; ++i) {
      all.push_back(std::uniform_int_distribution<std::uint64_t>(1, most)(random));
      if (i < 3) {
        residents.push_back(all.back());
      } else {
        counters.batch_left_pool(all.back());
      }
    }
    const Summary summary = counters.summary({}, residents);
    REQUIRE(summary.uses_p50 == brute_percentile(all, 0.50));
    REQUIRE(summary.uses_p99 == brute_percentile(all, 0.99));
    REQUIRE(summary.uses_max == *std::max_element(all.begin(), all.end()));
  }
}

TEST_CASE("uses beyond the exact range keep their largest, batches never served do not count") {
  UsesHistogram uses;
  uses.add(0);
  CHECK(uses.percentile(0.5) == 0);
  uses.add(UsesHistogram::kExact);
  CHECK(uses.percentile(0.5) == UsesHistogram::kExact);
  uses.add(70'000);
  uses.add(1'000'000);
  CHECK(uses.percentile(0.3) == UsesHistogram::kExact);
  CHECK(uses.percentile(0.5) == 1'000'000);
  CHECK(uses.max() == 1'000'000);
}

TEST_CASE("counting steps does not allocate") {
  RunCounters counters;
  const forebay::testing::AllocationCounter allocated;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    counters.step(record(i, i % 3 == 0 ? Decision::fresh : Decision::reuse, 0.1, 0.2));
    counters.batch_left_pool(i * 7);
  }
  counters.finished(0.1, 0.1);
  CHECK(allocated.count() == 0);
}

}  // namespace forebay::test_summary

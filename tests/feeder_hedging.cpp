// A feeder whose store hangs now and then: with second reads it keeps serving the same batches in the same order, and
// says that it hedges.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace forebay {
namespace {

using testing::Gate;
using testing::memory_options;
using testing::MemoryDataset;

constexpr std::uint64_t kSamples = 1200;

Options hedging_options() {
  Options options = memory_options(4);
  options.run.epochs = 1;
  options.workers.io = 8;
  options.workers.hedge = Hedge::automatic;
  return options;
}

// The first reads of some samples hang at a gate; a few others fail.
struct Store {
  explicit Store(std::uint64_t hangs_every) : every(hangs_every), reads(kSamples) {}
  [[nodiscard]] std::shared_ptr<MemoryDataset> dataset() {
    return std::make_shared<MemoryDataset>(kSamples, [this](std::uint64_t id) {
      const int before = reads[id]++;
      if (every > 0 && id % every == 8 && before == 0 && started) {
        ++hanging;
        gate.pass();
        --hanging;
      }
      if (id % 100 == 7) throw SampleError("is broken on purpose");
    });
  }

  std::uint64_t every;
  std::vector<std::atomic<int>> reads;
  std::atomic<bool> started{false};  // earlier, too few reads were seen to identify a slow one
  std::atomic<int> hanging{0};
  Gate gate;
};

using Batches = std::vector<std::vector<std::uint64_t>>;

// Opens the gate once everything is served.
Batches run(const Options& options, Store& store, Summary& summary) {
  Feeder feeder(options, Parts{.dataset = store.dataset()});
  Batches batches;
  while (auto batch = feeder.next()) {
    batches.emplace_back(batch->ids().begin(), batch->ids().end());
    if (batches.size() == 50) store.started = true;
    if (batches.size() == kSamples / 4) {
      CHECK((store.every == 0 || store.hanging > 0));  // they were not waited for
      store.gate.open();
    }
  }
  feeder.close();
  summary = feeder.summary();
  return batches;
}

TEST_CASE("reads that hang hold up nothing, and the same samples are served and quarantined") {
  const Options options = hedging_options();
  Summary summary;
  Store calm(0);
  const Batches expected = run(options, calm, summary);
  REQUIRE(expected.size() == kSamples / 4);
  CHECK(summary.bad_samples == 12);
  Store hanging(200);
  CHECK(run(options, hanging, summary) == expected);
  CHECK(summary.bad_samples == 12);
  CHECK(summary.hedged_reads >= 1);
  CHECK(summary.hedged_reads <= kSamples / 20 + 1);
}

TEST_CASE("hedge = off waits, and the description says what is in effect") {
  Options options = hedging_options();
  CHECK(Feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(8)}).describe().find("begun twice") !=
        std::string::npos);
  options.workers.hedge = Hedge::off;
  Store store(400);
  Feeder feeder(options, Parts{.dataset = store.dataset()});
  CHECK(feeder.describe().find("begun twice") == std::string::npos);
  store.started = true;
  std::uint64_t served = 0;
  store.gate.open();
  while (feeder.next()) ++served;
  CHECK(served == kSamples / 4);
  CHECK(feeder.summary().hedged_reads == 0);
}

TEST_CASE("the watchdog's report also shows a second read that hangs") {
  Options options = hedging_options();
  options.policy.watchdog_s = 2;
  Gate gate;
  std::atomic<int> reads{0};
  std::atomic<std::uint64_t> hangs{kSamples};  // in both reads
  Parts parts{.dataset = std::make_shared<MemoryDataset>(kSamples, [&](std::uint64_t id) {
                if (++reads == 400) hangs = id;
                if (id == hangs) gate.pass();
              })};
  Feeder feeder(options, std::move(parts));
  std::string report;
  try {
    while (feeder.next()) {
    }
  } catch (const WatchdogError& error) {
    report = error.what();
  }
  gate.open();
  CHECK(report.find("1 reader reading from the store") != std::string::npos);
  CHECK(report.find("1 reader reading what another is slow with") != std::string::npos);
  CHECK(report.find("memory/" + std::to_string(hangs)) != std::string::npos);
}

}  // namespace
}  // namespace forebay

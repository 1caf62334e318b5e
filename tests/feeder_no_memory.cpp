// A feeder that is refused one allocation either starts nevertheless or reports it, and leaves
// nothing behind.
#include <forebay/feeder.hpp>

#include "allocation_counter.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_feeder_no_memory {
namespace {

using namespace testing;

constexpr std::size_t kMost = 20'000;  // more allocations than a feeder makes

// The error of a feeder that is refused the allocation after `allowed` ones; "" if it starts;
// nothing if it makes fewer allocations.
std::optional<std::string> start_and_end(Options options, std::size_t allowed) {
  Parts parts{.dataset = std::make_shared<MemoryDataset>(24)};
  parts.log = [](LogLevel, std::string_view) {};
  std::string what;
  RefusedAllocation refused(allowed);
  try {
    const Feeder feeder(std::move(options), std::move(parts));
  } catch (const Error& error) {
    what = error.what();
  }
  return refused.has_come() ? std::optional(what) : std::nullopt;
}

TEST_CASE("each allocation of a feeder's start is refused in turn") {
  const TemporaryDirectory dir;
  Options options = memory_options(4);
  for (const bool has_telemetry : {false, true}) {
    CAPTURE(has_telemetry);
    if (has_telemetry) options.telemetry.dir = (dir / "run").string();
    REQUIRE(start_and_end(options, kMost) == std::nullopt);
    std::size_t errors = 0;
    std::size_t allowed = 0;
    for (; allowed < kMost; ++allowed) {
      CAPTURE(allowed);
      const auto what = start_and_end(options, allowed);
      if (!what) break;
      errors += what->empty() ? 0 : 1;
      CAPTURE(*what);
      CHECK((what->empty() || contains(*what, "memory")));
    }
    CHECK(allowed > 50);
    CHECK(errors > allowed / 2);
  }
}

TEST_CASE("next() does not allocate: fresh or reused, with telemetry and a trace, under every policy") {
  const TemporaryDirectory dir;
  for (const std::string& policy : PolicyRegistry::builtin().names()) {
    CAPTURE(policy);
    Options options = memory_options(4);
    options.policy.name = policy;
    options.policy.pick = Pick::least_used;
    options.queue.pool = 3;
    options.run.steps = 400;
    options.telemetry.dir = (dir / policy).string();
    options.policy.recording = (dir / "greedy").string();  // replay is tested after greedy
    Parts parts{.dataset = std::make_shared<MemoryDataset>(200)};
    parts.trace = dir / (policy + ".trace.json");
    Feeder feeder(options, std::move(parts));
    std::uint64_t fresh = 0;
    std::size_t allocations = 0;
    for (int step = 0; step < 400; ++step) {
      const AllocationCounter counter;
      auto batch = feeder.next();
      if (batch && batch->is_fresh()) ++fresh;
      batch.reset();
      if (step > 0) allocations += counter.count();  // the first step opens the telemetry files
    }
    CHECK(allocations == 0);
    CHECK(fresh > 0);
  }
}

TEST_CASE("the counter counts") {
  const AllocationCounter counter;
  const auto number = std::make_unique<std::string>(1000, 'x');
  CHECK(counter.count() >= 2);
}

}  // namespace
}  // namespace forebay::test_feeder_no_memory

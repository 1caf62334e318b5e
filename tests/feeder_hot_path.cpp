#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <forebay/feeder.hpp>

#include "allocation_counter.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::AllocationCounter;
using testing::memory_options;
using testing::MemoryDataset;
using testing::TemporaryDirectory;

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
    options.policy.recording = (dir / "greedy").string();  // replay comes after it
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
      if (step > 0) allocations += counter.count();  // the first opens the telemetry's files
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
}  // namespace forebay

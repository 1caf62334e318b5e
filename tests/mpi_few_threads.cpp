// One rank of a job is refused a thread: all of them throw the same error.
#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"
#include "thread_limit.hpp"

namespace {

using namespace forebay;
using namespace forebay::testing;

// The error of a whole run on a rank that may start this many threads, or any number; empty if it
// went well.
std::string run(const Options& options, std::optional<int> allowed) {
  std::optional<ThreadLimit> limit;
  if (allowed) limit.emplace(*allowed, ThreadLimit::Refuses::all);
  try {
    Feeder feeder(options, world(), Parts{.dataset = std::make_shared<MemoryDataset>(64)});
    while (feeder.next()) {
    }
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a thread that one rank is refused ends the construction, or the first step, on all ranks alike") {
  std::thread([] {}).join();
  const auto between = world().duplicate();
  const std::uint32_t refused = between->size() - 1;
  const TemporaryDirectory folder;
  Options options = memory_options(4);
  options.telemetry.dir = between->all_gather(folder.path().string())[0];
  options.telemetry.interval_s = 5;
  const std::size_t threads = count_threads();
  int allowed = 0;
  for (bool fails = true; fails; ++allowed) {
    CAPTURE(allowed);
    const bool is_refused = between->rank() == refused;
    const std::vector<std::string> said =
        between->all_gather(run(options, is_refused ? std::optional(allowed) : std::nullopt));
    fails = !said[0].empty();
    CHECK(std::ranges::all_of(said, [&](const std::string& text) { return text == said[0]; }));
    if (!fails) continue;
    check_refusal(said[0]);
    if (between->size() > 1) CHECK(said[0].find("rank " + std::to_string(refused)) != std::string::npos);
    CHECK(eventually([&] { return count_threads() <= threads; }));
    REQUIRE(allowed < 100);
  }
  CHECK(allowed == 2 + 2 + 1 + 3 + 1);  // readers, decoders, issuer, telemetry, profiler, clock; then the run succeeded
}

// A feeder that is refused one allocation: it starts all the same, or says so, and nothing is left of it.
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <forebay/feeder.hpp>

#include "allocation_counter.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

namespace {

using namespace forebay;
using namespace forebay::testing;

constexpr std::size_t kMost = 20'000;  // no feeder asks so often

// What the feeder says that is refused the allocation after so many, "" if it starts; nothing if it asks for fewer.
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

}  // namespace

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

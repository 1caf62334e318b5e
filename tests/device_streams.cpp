#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "stream_world.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::Mutant;
using testing::StreamWorld;
using testing::WorldSetup;

constexpr std::uint64_t kSeeds = testing::kSanitized ? 200 : 2000;
constexpr std::uint64_t kSteps = 60;

const char* text_of(const WorldSetup& setup) {
  if (setup.canvases) return setup.reuses ? "canvases, reusing" : "canvases, stalling";
  return setup.reuses ? "tensors, reusing" : "tensors, stalling";
}

std::string run(const WorldSetup& setup, std::uint64_t seed) { return StreamWorld(setup, seed).run(kSteps); }

// The first seed with which something goes wrong.
std::optional<std::uint64_t> first_failure(const WorldSetup& setup) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!run(setup, seed).empty()) return seed;
  }
  return std::nullopt;
}

TEST_CASE("whatever the order in which the device works, every use finds its batch whole") {
  // FOREBAY_SEED=N looks at one seed only.
  const char* const given = std::getenv("FOREBAY_SEED");
  for (const bool reuses : {true, false}) {
    for (const bool canvases : {false, true}) {
      const WorldSetup setup{.reuses = reuses, .canvases = canvases};
      const std::uint64_t only = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
      for (std::uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : kSeeds); ++seed) {
        const std::string wrong = run(setup, seed);
        CHECK_MESSAGE(wrong.empty(), text_of(setup), ", seed ", seed, ": ", wrong);
      }
    }
  }
}

TEST_CASE("both policies do what they are there for") {
  StreamWorld reusing({.reuses = true}, 1);
  REQUIRE(reusing.run(200).empty());
  CHECK(reusing.fresh() < 200);
  StreamWorld stalling({.reuses = false}, 1);
  REQUIRE(stalling.run(200).empty());
  CHECK(stalling.fresh() == 200);
}

TEST_CASE("a world that fails fails again with its seed") {
  const WorldSetup setup{.mutant = Mutant::copies_are_not_awaited};
  const auto seed = first_failure(setup);
  REQUIRE(seed);
  CHECK(run(setup, *seed) == run(setup, *seed));
}

// Not each in every world: which world a bug shows in is printed.
TEST_CASE("every planted bug is caught") {
  for (int number = 1; number < testing::kMutants; ++number) {
    const auto mutant = static_cast<Mutant>(number);
    std::printf("%-46s", std::string(name_of(mutant)).c_str());
    int caught = 0;
    for (const bool reuses : {true, false}) {
      for (const bool canvases : {false, true}) {
        const WorldSetup setup{.reuses = reuses, .canvases = canvases, .mutant = mutant};
        const auto seed = first_failure(setup);
        caught += seed ? 1 : 0;
        std::printf("  %s: %s", text_of(setup), seed ? ("seed " + std::to_string(*seed)).c_str() : "-");
      }
    }
    std::printf("\n");
    CHECK_MESSAGE(caught > 0, std::string(name_of(mutant)));
  }
}

}  // namespace
}  // namespace forebay

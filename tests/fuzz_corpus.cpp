// Runs the fuzzer's corpus and its seeds again; see scripts/fuzz.
#include <random>

#include "fuzz/kept.hpp"
#include "fuzz/targets.hpp"
#include "test.hpp"

namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

TEST_CASE("every target takes its seeds, whole and cut") {
  for (const Target& target : targets()) {
    const std::string name(target.name);
    CAPTURE(name);
    const auto seeds = target.seeds();
    // A build may lack the libraries of these.
    CHECK((!seeds.empty() || name == "webp" || name == "tiff"));
    for (const std::string& seed : seeds) {
      CAPTURE(seed);
      CHECK(target.use(seed));
      for (std::size_t part = 0; part < 8; ++part)
        CHECK_NOTHROW((void)target.use(seed.substr(0, seed.size() * part / 8)));
    }
  }
}

TEST_CASE("every target takes its seeds with bytes changed, and cut anywhere") {
  constexpr int kRounds = testing::kSanitized ? 100 : 400;
  Random random = testing::random_from(std::random_device{}());
  for (const Target& target : targets()) {
    const std::string name(target.name);
    const auto seeds = target.seeds();
    for (int round = 0; round < kRounds && !seeds.empty(); ++round) {
      std::string input = seeds[random.below(seeds.size())];
      if (round % 3 == 0) input.resize(random.below(input.size() + 1));
      for (auto left = input.empty() ? 0 : random.below(5); left > 0; --left) {
        std::size_t at = random.below(input.size());
        for (int tries = 0; tries < 8 && input[at] == 0; ++tries) at = random.below(input.size());  // seldom in padding
        const auto kind = random.below(3);
        input[at] = kind == 0   ? static_cast<char>(random.bits())
                    : kind == 1 ? '\xFF'
                                : static_cast<char>(input[at] ^ (1 << random.below(8)));
      }
      CAPTURES(name, round, input);
      CHECK_NOTHROW((void)target.use(input));
    }
  }
}

TEST_CASE("every input that is kept is used as its target promises") {
  std::size_t inputs = 0;
  for (const auto& archive : fs::directory_iterator(corpus())) {
    const Target* const target = find_target(archive.path().stem().string());
    REQUIRE_MESSAGE(target != nullptr, archive.path(), " is named like no target");
    for (const KeptInput& input : kept_inputs(archive.path())) {
      CAPTURES(archive.path(), input.name);
      CHECK_NOTHROW((void)target->use(input.bytes));
      ++inputs;
    }
  }
  CHECK(inputs > 0);
  MESSAGE(inputs << " inputs");
}

}  // namespace
}  // namespace forebay::fuzz

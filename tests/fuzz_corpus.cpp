// Runs the fuzzer's corpus and its seeds again; see scripts/fuzz.
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

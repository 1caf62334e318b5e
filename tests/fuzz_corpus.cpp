// What the fuzzer has found worth keeping, and what it begins with, once more: see scripts/fuzz.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "dataset_support.hpp"
#include "fuzz/targets.hpp"
#include "support.hpp"

namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path corpus() { return testing::source_dir() / "tests" / "fuzz" / "corpus"; }

TEST_CASE("every target takes its seeds, whole and cut") {
  for (const Target& target : targets()) {
    const std::string name(target.name);
    CAPTURE(name);
    const auto seeds = target.seeds();
    // A build may lack their libraries.
    CHECK((!seeds.empty() || name == "webp" || name == "tiff"));
    for (const std::string& seed : seeds) {
      CAPTURE(seed);
      CHECK(target.use(seed));
      for (std::size_t part = 0; part < 8; ++part)
        CHECK_NOTHROW((void)target.use(seed.substr(0, seed.size() * part / 8)));
    }
  }
}

TEST_CASE("every file of the corpus is used as its target promises") {
  std::size_t files = 0;
  for (const auto& folder : fs::directory_iterator(corpus())) {
    const Target* const target = find_target(folder.path().filename().string());
    REQUIRE_MESSAGE(target != nullptr, folder.path(), " is named like no target");
    for (const auto& file : fs::directory_iterator(folder)) {
      CAPTURE(file.path());
      CHECK_NOTHROW((void)target->use(testing::read_file(file.path())));
      ++files;
    }
  }
  CHECK(files > 0);
  MESSAGE(files << " files");
}

}  // namespace
}  // namespace forebay::fuzz

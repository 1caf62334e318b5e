// The state of a job as text: it says what it says, and reads back as it was.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "order/job_state.hpp"
#include "state_text.hpp"
#include "states.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::contains;
using testing::job;
using testing::leave;
using testing::put_in_order;
using testing::random_state;
using testing::sealed;
using testing::small_state;
using testing::unpacked;
using Json = nlohmann::ordered_json;

void check_round_trip(const JobState& state) {
  const std::string text = to_text(state);
  CHECK(parse_state(text, "a state") == state);
  CHECK(text.ends_with("}\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("the text is JSON that says what it says") {
  const JobState state = small_state();
  const std::string text = to_text(state);
  const Json json = Json::parse(text);
  CHECK(json.begin().key() == "forebay_state");
  CHECK(json.at("forebay_state") == 2);
  CHECK(json.at("steps") == state.steps);
  CHECK(json.at("settings") == Json{{"dataset.batch_size", "64"}, {"seed", "17"}});
  // Shards 0 to 7 of both epochs, without shard 2 of the first, whose shard 5 has gone to the other rank.
  CHECK(unpacked(json.at("left")) == Json::parse(R"({"epoch":[3,0,0,0,0,0,0,1,0,0,0,0,0,0,0],
                                                     "shard":[0,1,2,1,1,1,1,-7,1,1,1,1,1,1,1],
                                                     "begin":[3,0,0,-1,1,-1,1,-3,0,0,0,0,0,0,0],
                                                     "end":[6,0,-1,0,0,0,0,1,0,0,-1,0,0,0,0],
                                                     "owner":[0,1,0,-1,0,0,1,-1,1,-1,1,-1,1,-1,1]})"));
  CHECK(sealed(json) == text);
}

TEST_CASE("the example in docs/state.md is a state, and what the page says about it is true") {
  std::ifstream page(forebay::testing::source_dir() / "docs" / "state.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("{\"forebay_state\"")) {
  }
  const JobState state = parse_state(line + "\n", "the example");
  // Other versions of zlib may compress in another way.
  const Json example = Json::parse(line);
  Json written = Json::parse(to_text(state));
  CHECK(unpacked(written.at("left")) == unpacked(example.at("left")));
  written["left"] = example.at("left");
  CHECK(sealed(written) == line + "\n");
  while (std::getline(page, line) && !line.starts_with("{\"epoch\"")) {
  }
  CHECK(Json::parse(line) == unpacked(example.at("left")));
  JobState told = job(8, 2, 43, 3, 2);
  leave(told, [](std::uint32_t rank) { return rank == 0 ? 24U : 9U; });
  REQUIRE(told.left[3] == BatchRange{.epoch = 3, .begin = 2, .end = 5, .shard = 7, .owner = 1});
  told.left[3].end = 4;
  told.left.push_back({.epoch = 3, .begin = 4, .end = 5, .shard = 7, .owner = 0});
  put_in_order(told);
  CHECK(state.left == told.left);
}

TEST_CASE("equal states have equal texts, and states read back") {
  const std::uint64_t seed = 41;
  CAPTURE(seed);
  Random random(seed);
  std::size_t ranges = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const JobState state = random_state(random);
    ranges += state.left.size();
    check_round_trip(state);
  }
  CHECK(ranges > 50'000);

  JobState last = job(1, 1, 1, UINT64_MAX - 1, 1);
  last.steps = last.fresh_samples = last.samples = UINT64_MAX;
  last.left = {{.epoch = UINT64_MAX - 1, .begin = 0, .end = 1, .shard = 0, .owner = 0}};
  check_round_trip(last);
  last.batches = UINT64_MAX;
  last.left[0].end = UINT64_MAX;
  check_round_trip(last);
  check_round_trip(job(1U << 20U, 1U << 20U, UINT64_MAX, 0, 1U << 16U));
  check_round_trip(job(1024, 4, 100, 7, 0));
}

TEST_CASE("an impossible state is not written") {
  const auto error = [](auto&& change) {
    JobState state = small_state();
    change(state);
    try {
      (void)to_text(state);
    } catch (const Error& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  CHECK(error([](JobState&) {}).empty());
  CHECK(contains(error([](JobState& state) { state.ranks = 0; }), "a bug in Forebay: ranks is 0"));
  CHECK(contains(error([](JobState& state) { state.left[1].owner = 2; }), "belong to rank 2 of 2"));
  CHECK(contains(error([](JobState& state) { std::swap(state.left[0], state.left[1]); }), "are out of order"));
  CHECK(contains(error([](JobState& state) { state.left.push_back(state.left.back()); }), "are left twice in part"));
}

}  // namespace
}  // namespace forebay

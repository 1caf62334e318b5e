// The exact rule of each policy, and the rules that apply to all of them, tested with small tables.
#include <forebay/config.hpp>
#include <forebay/policy.hpp>

#include "measure/recording.hpp"
#include "test.hpp"

namespace forebay::test_policies {

using namespace forebay::measure;

namespace {

std::unique_ptr<Policy> make(const PolicyOptions& options) { return PolicyRegistry::builtin().make(options); }

// The decisions at these depths, one letter per step (F, R, W), each carried out as decided. A
// batch is resident from the start, so this is the bare policy's rule.
std::string decisions(Policy& policy, std::uint32_t capacity, const std::vector<std::uint32_t>& depths) {
  std::string letters;
  std::uint64_t step = 0;
  for (const std::uint32_t depth : depths) {
    const Signals signals{.step = step++, .depth = depth, .capacity = capacity, .uses = 1};
    const Decision decision = policy.decide(signals);
    policy.served(decision, signals);
    letters += decision == Decision::fresh ? 'F' : decision == Decision::reuse ? 'R' : 'W';
  }
  return letters;
}

std::string decisions(const PolicyOptions& options, std::uint32_t capacity, const std::vector<std::uint32_t>& depths) {
  return decisions(*make(options), capacity, depths);
}

TEST_CASE("block: always fresh") { CHECK(decisions({.name = "block"}, 4, {0, 1, 4, 0}) == "FFFF"); }

TEST_CASE("interval: fresh every N steps, whatever the depth") {
  CHECK(decisions({.name = "interval", .interval = 1}, 4, {4, 0, 4, 0}) == "FFFF");
  CHECK(decisions({.name = "interval", .interval = 3}, 4, {4, 4, 4, 0, 0, 0, 1}) == "FRRFRRF");
}

TEST_CASE("interval: counts from the last fresh batch, also from one that another rule made fresh") {
  const auto policy = make({.name = "interval", .interval = 3});
  const Signals signals{.depth = 1, .uses = 1};
  CHECK(policy->decide(signals) == Decision::fresh);
  policy->served(Decision::fresh, signals);
  CHECK(policy->decide(signals) == Decision::reuse);
  policy->served(Decision::fresh, signals);
  CHECK(decisions(*policy, 4, {4, 4, 4, 4}) == "RRFR");
}

TEST_CASE("greedy: reuses only when exhausted") {
  CHECK(decisions({.name = "greedy"}, 4, {0, 1, 0, 4, 2, 0}) == "RFRFFR");
}

TEST_CASE("watermark: starts reusing below low, stops at high") {
  const PolicyOptions options{.name = "watermark", .low = 0.25, .high = 0.75};
  // capacity 16: low 4, high 12
  CHECK(decisions(options, 16, {8, 5, 4, 3, 4, 8, 11, 12, 11, 4, 3}) == "FFFRRRRFFFR");
  // capacity 2: low 1 (rounded up from a half), high 2
  CHECK(decisions(options, 2, {2, 1, 0, 1, 1, 2, 1, 0}) == "FFRRRFFR");
  // capacity 1: both 1, the same as greedy
  CHECK(decisions(options, 1, {1, 0, 1, 0, 0, 1}) == "FRFRRF");
}

TEST_CASE("watermark: marks are whole batches, rounded up, never out of reach") {
  // low * capacity = 3 and high * capacity = 6, exactly, although the product of doubles is not
  CHECK(decisions({.name = "watermark", .low = 0.1, .high = 0.2}, 30, {3, 2, 5, 6}) == "FRRF");
  CHECK(decisions({.name = "watermark", .low = 0, .high = 0}, 8, {0, 1, 0}) == "RFR");
  CHECK(decisions({.name = "watermark", .low = 1, .high = 1}, 4, {3, 4, 3, 4}) == "RFRF");
  // low above high is taken as high
  CHECK(decisions({.name = "watermark", .low = 0.9, .high = 0.5}, 8, {5, 4, 3, 4}) == "FFRF");
}

TEST_CASE("watermark: serves what is ready once the source stops, down to the last batch") {
  const auto policy = make({.name = "watermark", .low = 0.25, .high = 0.75});
  CHECK(decisions(*policy, 16, {3}) == "R");
  CHECK(decisions(*policy, 16, std::vector<std::uint32_t>(64, 3)) == std::string(64, 'R'));
  CHECK(decisions(*policy, 16, {3, 2, 1, 0, 1}) == "FFFRR");
}

TEST_CASE("watermark: a source that delivers keeps it refilling") {
  const auto policy = make({.name = "watermark", .low = 0.25, .high = 0.75});
  for (std::uint32_t depth = 0; depth < 12; ++depth) {
    CHECK(decisions(*policy, 16, std::vector<std::uint32_t>(50, depth)) == std::string(50, 'R'));
  }
  CHECK(decisions(*policy, 16, {12}) == "F");
}

TEST_CASE("proportional: the share of fresh steps is depth / (beta * capacity), at most 1") {
  const PolicyOptions options{.name = "proportional", .beta = 0.5};  // capacity 8: a step at depth 4 earns 1
  CHECK(decisions(options, 8, {4, 5, 8}) == "FFF");
  CHECK(decisions(options, 8, {2, 2, 2, 2}) == "RFRF");
  CHECK(decisions(options, 8, {1, 1, 1, 1, 1, 1, 1, 1}) == "RRRFRRRF");
  CHECK(decisions(options, 8, {3, 3, 3, 3, 3, 3, 3, 3}) == "RFFFRFFF");  // remainders carry over
  CHECK(decisions(options, 8, {3, 0, 0, 1, 0}) == "RRRFR");
  // beta * capacity at or below one batch is greedy
  CHECK(decisions(options, 1, {1, 0, 1}) == "FRF");
  CHECK(decisions(options, 2, {1, 0, 2}) == "FRF");
  CHECK(decisions(options, 3, {1, 1, 2, 1}) == "RFFR");
}

TEST_CASE("proportional: credit is exact over many steps") {
  // Thirds do not add up to 1 in binary floating point; here one step in three is fresh for ever.
  const auto policy = make({.name = "proportional", .beta = 0.5});
  for (int i = 0; i < 100'000; ++i) {
    const std::string three = decisions(*policy, 6, {1, 1, 1});
    if (three != "RRF") REQUIRE(three == "RRF");
  }
}

TEST_CASE("proportional: credit of fresh batches that were denied is kept, but bounded by the capacity") {
  const auto policy = make({.name = "proportional", .beta = 1});
  const Signals full{.depth = 4, .capacity = 4, .uses = 1};
  for (int i = 0; i < 100; ++i) policy->served(Decision::reuse, full);
  CHECK(decisions(*policy, 4, {0}) == "R");  // nothing is ready, and the policy must not wait
  CHECK(decisions(*policy, 4, {1, 1, 1, 1, 1, 1, 1}) == "FFFFFRR");
}

TEST_CASE("proportional: a fresh batch ahead of its time leaves no debt") {
  const auto policy = make({.name = "proportional", .beta = 1});
  for (int i = 0; i < 100; ++i) policy->served(Decision::fresh, {.depth = 0, .capacity = 4, .uses = 1});
  CHECK(decisions(*policy, 4, {4}) == "F");
}

// Decides as the test says.
class Scripted final : public Policy {
 public:
  explicit Scripted(Decision decision) : decision_(decision) {}
  Decision decide(const Signals& /*signals*/) override { return decision_; }
  void served(Decision decision, const Signals& /*signals*/) override { seen.push_back(decision); }

  std::vector<Decision> seen;

 private:
  Decision decision_;
};

std::unique_ptr<RuledPolicy> ruled(Decision decision, const PolicyOptions& options) {
  return with_rules(std::make_unique<Scripted>(decision), options);
}

TEST_CASE("rules: without a resident batch the step is fresh") {
  CHECK(ruled(Decision::reuse, {})->decide({.depth = 0, .uses = 0}) == Decision::fresh);
  CHECK(ruled(Decision::wait, {})->decide({.depth = 3, .uses = 0}) == Decision::fresh);
  CHECK(ruled(Decision::reuse, {.max_wait_ms = 10})->decide({.depth = 0, .uses = 0}) == Decision::fresh);
}

TEST_CASE("rules: without caps the policy's own decision holds") {
  for (const Decision decision : {Decision::fresh, Decision::reuse, Decision::wait}) {
    CHECK(ruled(decision, {})->decide({.depth = 0, .uses = 1'000'000}) == decision);
  }
}

TEST_CASE("rules: what is no decision is refused by the policy's name") {
  CHECK_THROWS_WITH_AS((void)ruled(static_cast<Decision>(77), {.name = "mine"})->decide({.depth = 3, .uses = 1}),
                       "policy.name = \"mine\": decide() returned 77, which is no Decision; does it return one on "
                       "every path?",
                       Error);
}

TEST_CASE("rules: what was served reaches the policy") {
  auto scripted = std::make_unique<Scripted>(Decision::reuse);
  const Scripted& seen = *scripted;
  const auto policy = with_rules(std::move(scripted), {});
  policy->served(Decision::fresh, {});
  policy->served(Decision::reuse, {.uses = 1});
  CHECK(seen.seen == std::vector{Decision::fresh, Decision::reuse});
}

TEST_CASE("rules: max_uses counts the fresh serve") {
  const auto policy = ruled(Decision::reuse, {.max_uses = 3, .on_max_uses = OnMaxUses::wait});
  CHECK(policy->decide({.depth = 0, .uses = 1}) == Decision::reuse);
  CHECK(policy->decide({.depth = 0, .uses = 2}) == Decision::reuse);
  CHECK(policy->decide({.depth = 0, .uses = 3}) == Decision::fresh);
  CHECK(policy->decide({.depth = 5, .capacity = 8, .uses = 7}) == Decision::fresh);
  CHECK(policy->capped_reuses() == 0);
}

TEST_CASE("rules: on_max_uses = warn allows and counts") {
  const auto policy = ruled(Decision::reuse, {.max_uses = 2, .on_max_uses = OnMaxUses::warn});
  for (std::uint64_t uses = 1; uses <= 4; ++uses) {
    const Signals signals{.depth = 0, .uses = uses};
    CHECK(policy->decide(signals) == Decision::reuse);
    policy->served(Decision::reuse, signals);
  }
  CHECK(policy->capped_reuses() == 3);
}

TEST_CASE("rules: on_max_uses = error names the step and the keys") {
  const auto policy = ruled(Decision::reuse, {.max_uses = 2, .on_max_uses = OnMaxUses::error});
  CHECK(policy->decide({.uses = 1}) == Decision::reuse);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(policy->decide({.step = 41, .uses = 2})),
      doctest::Contains("step 41 would reuse a batch that was served 2 times, and policy.max_uses = 2"), Error);
  CHECK(ruled(Decision::fresh, {.max_uses = 1, .on_max_uses = OnMaxUses::error})->decide({.uses = 9}) ==
        Decision::fresh);
}

TEST_CASE("rules: max_wait_ms turns a reuse out of exhaustion into a wait, for so long") {
  const auto policy = ruled(Decision::reuse, {.max_wait_ms = 50});
  CHECK(policy->decide({.depth = 0, .uses = 1, .waited_s = 0}) == Decision::wait);
  CHECK(policy->decide({.depth = 0, .uses = 1, .waited_s = 0.049}) == Decision::wait);
  CHECK(policy->decide({.depth = 0, .uses = 1, .waited_s = 0.05}) == Decision::reuse);
  CHECK(policy->decide({.step = 1, .depth = 1, .uses = 1, .waited_s = 0}) == Decision::reuse);
}

TEST_CASE("rules: a step that waited serves the batch that came, even if the policy would keep it back") {
  const auto policy = ruled(Decision::reuse, {.max_wait_ms = 50});
  CHECK(policy->decide({.step = 7, .depth = 0, .uses = 1, .waited_s = 0}) == Decision::wait);
  CHECK(policy->decide({.step = 7, .depth = 1, .uses = 1, .waited_s = 0.01}) == Decision::fresh);
  CHECK(policy->decide({.step = 8, .depth = 1, .uses = 1, .waited_s = 0.01}) == Decision::reuse);
}

TEST_CASE("rules: the short wait comes before the cap") {
  const auto policy = ruled(Decision::reuse, {.max_uses = 1, .on_max_uses = OnMaxUses::error, .max_wait_ms = 50});
  CHECK(policy->decide({.depth = 0, .uses = 1, .waited_s = 0}) == Decision::wait);
  CHECK_THROWS_AS(static_cast<void>(policy->decide({.depth = 0, .uses = 1, .waited_s = 1})), Error);
}

TEST_CASE("pick_resident") {
  const std::vector<Resident> residents{
      {.uses = 3, .turn = 4}, {.uses = 1, .turn = 6}, {.uses = 1, .turn = 5}, {.uses = 1, .turn = 7}};
  CHECK(pick_resident(Pick::current, residents) == 3);
  CHECK(pick_resident(Pick::least_used, residents) == 2);  // the oldest of the least used ones
  CHECK(pick_resident(Pick::least_used, std::span(residents).first(1)) == 0);
  CHECK(pick_resident(Pick::current, std::span(residents).first(1)) == 0);
}

TEST_CASE("replay: does what was recorded for each step, and never waits beyond the recording") {
  const testing::TemporaryDirectory dir;
  const std::vector<std::uint64_t> runs{1, 2, 2};
  std::ofstream(recording_file(dir.path(), 0)) << header_line({}) << decisions_line(0, runs);
  // The folder gives the same as the file of its rank 0.
  for (const std::string& recording : {recording_file(dir.path(), 0).string(), dir.path().string()}) {
    const PolicyOptions options{.name = "replay", .recording = recording};
    CHECK(decisions(options, 4, {4, 4, 4, 0, 0}) == "FRRFF");
    CHECK(decisions(options, 4, {0, 0, 1, 1, 1, 1, 0, 2}) == "FRRFFFRF");
  }
  CHECK_THROWS_WITH_AS(make({.name = "replay"}), doctest::Contains("needs policy.recording"), ConfigError);
}

TEST_CASE("replay: a padded step is decided as it was, and in the simulator, which knows no padding, a reuse") {
  const testing::TemporaryDirectory dir;
  const std::vector<std::uint64_t> runs{1, 2, 3};
  const std::vector<std::uint64_t> padded{2, 3, 1};
  const auto file = recording_file(dir.path(), 0);
  std::ofstream(file) << header_line({}) << decisions_line(0, runs, padded);
  CHECK(decisions({.name = "replay", .recording = file.string()}, 4, {4, 4, 4, 4, 4, 4}) == "FRRFFF");
  CHECK(decisions({.name = "replay", .recording = dir.path().string()}, 4, {4, 4, 4, 4, 4, 4}) == "FRRRRF");
}

TEST_CASE("registry: knows the policies of this folder, and lists them when asked for another") {
  const PolicyRegistry registry = PolicyRegistry::builtin();
  for (const std::string name : {"block", "interval", "greedy", "watermark", "proportional"}) {
    CHECK(registry.make({.name = name}) != nullptr);
  }
  CHECK_THROWS_WITH_AS(
      static_cast<void>(registry.make({.name = "greddy"})),
      doctest::Contains("policy.name = \"greddy\": there is no such policy; known policies: adaptive, block, "),
      ConfigError);
}

TEST_CASE("registry: a factory that makes nothing is refused by its name") {
  PolicyRegistry mine;
  mine.add("mine", [](const PolicyOptions&) { return nullptr; });
  mine.add("none", {});
  for (const std::string name : {"mine", "none"}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(mine.make({.name = name})),
                         ("policy.name = \"" + name + "\": its factory made nothing").c_str(), ConfigError);
  }
}

TEST_CASE("registry: is a value; a program adds its own policy or replaces one") {
  PolicyRegistry mine = PolicyRegistry::builtin();
  mine.add("mine", [](const PolicyOptions&) { return std::make_unique<Scripted>(Decision::wait); });
  mine.add("block", [](const PolicyOptions&) { return std::make_unique<Scripted>(Decision::reuse); });
  CHECK(mine.make({.name = "mine"})->decide({}) == Decision::wait);
  CHECK(mine.make({.name = "block"})->decide({}) == Decision::reuse);
  CHECK_THROWS_AS(static_cast<void>(PolicyRegistry::builtin().make({.name = "mine"})), ConfigError);
  CHECK(PolicyRegistry::builtin().make({.name = "block"})->decide({}) == Decision::fresh);
}

TEST_CASE("every policy's preset is a [policy] section that names it") {
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    const std::string path = (forebay::testing::source_dir() / "policies" / (name + ".toml")).string();
    CAPTURE(path);
    std::ifstream file(path);
    REQUIRE(file);
    std::ostringstream text;
    text << "[dataset]\npath = \"data\"\n" << file.rdbuf();
    CHECK(parse_options(text.str(), path).policy.name == name);
  }
}

}  // namespace
}  // namespace forebay::test_policies

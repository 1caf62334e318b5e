// `forebay simulate` as a user runs it, and the simulator compared with recorded runs.
#include <forebay/policy.hpp>
#include <nlohmann/json.hpp>

#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_simulate_command {
namespace {

using namespace testing;
using Json = nlohmann::json;

Outcome simulate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "simulate");
  return run_command(arguments);
}

bool says(const Outcome& outcome, const std::string& text) { return outcome.says(text); }

Json results(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = simulate(arguments);
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.output);
}

// Writes telemetry of a rank with steps of 10 ms and a batch every `uses` of them, with reuse in between.
void write_trace(const std::filesystem::path& file, int steps, int uses = 3) {
  std::ofstream out(file);
  for (int step = 0; step < steps; ++step) {
    out << Json{{"step", step},
                {"epoch", 0},
                {"batch", step / uses},
                {"use_index", step % uses},
                {"depth", 1},
                {"produced", 2 + step / uses},
                {"t_s", 0.01 * step},
                {"wait_s", 0},
                {"step_s", step == 0 ? 0 : 0.01},
                {"blocked_producer_s", 0}}
               .dump()
        << "\n";
  }
}

TEST_CASE("a table of all policies, and the same figures as JSON") {
  const TemporaryDirectory dir;
  const Outcome outcome = simulate({"--policy", "all", "-R", "1.5", "-R", "3", "--steps", "2000", "--seeds", "2",
                                    "--json", (dir / "runs.json").string()});
  CHECK(outcome.code == 0);
  std::vector<std::string> names = PolicyRegistry::builtin().names();
  std::erase(names, "replay");  // it needs a recording
  for (const std::string& name : names) CHECK(says(outcome, name));
  std::ifstream in(dir / "runs.json");
  const Json runs = Json::parse(in);
  CHECK(runs.size() == names.size() * 2 * 2);
  for (const Json& run : runs) {
    CHECK(run.at("fresh").get<int>() + run.at("reused").get<int>() == 2000);
    CHECK(run.at("source") == "exponential");
    if (run.at("policy") == "block") CHECK(run.at("stall_s") > 0);
    if (run.at("policy") == "adaptive") CHECK(run.at("ratio_to_optimum") >= 1);
  }
}

TEST_CASE("queue, policy and ranks come from the configuration and its overrides") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "feed.toml") << "[queue]\ncapacity = 5\npool = 2\n[policy]\nname = \"greedy\"\n";
  const Json runs = results({(dir / "feed.toml").string(), "--set", "queue.pool=3", "--ranks", "7", "--mode",
                             "lockstep", "--source", "constant", "--steps", "300"});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].at("policy") == "greedy");
  CHECK(runs[0].at("capacity") == 5);
  CHECK(runs[0].at("pool") == 3);
  CHECK(runs[0].at("ranks") == 7);
  CHECK(runs[0].at("mode") == "lockstep");
  CHECK(runs[0].at("fresh").get<int>() + runs[0].at("reused").get<int>() == 7 * 300);
}

TEST_CASE("some ranks are slower than the others") {
  const std::vector<std::string> job{
      "--policy", "adaptive,block", "--source", "constant",     "-R", "0.8",     "--ranks",
      "8",        "--slow-ranks",   "2",        "--slow-ratio", "20", "--steps", "1000"};
  for (const std::string mode : {"local", "lockstep"}) {
    CAPTURE(mode);
    std::vector<std::string> arguments = job;
    arguments.insert(arguments.end(), {"--mode", mode});
    const Json runs = results(arguments);
    REQUIRE(runs.size() == 2);
    const Json& adaptive = runs[0];
    const Json& block = runs[1];
    CHECK(adaptive.at("slow_ranks") == 2);
    CHECK(adaptive.at("slow_R") == 20);
    CHECK(adaptive.at("stall_s") == 0);
    CHECK(adaptive.at("slow_fresh_fraction").get<double>() == doctest::Approx(0.05).epsilon(0.2));
    CHECK(adaptive.at("other_fresh_fraction").get<double>() ==
          doctest::Approx(mode == "local" ? 1 : 0.05).epsilon(0.2));
    CHECK(adaptive.at("possible_fresh_fraction").get<double>() == doctest::Approx(0.75 + 0.25 * 0.05).epsilon(0.01));
    CHECK(block.at("wall_s").get<double>() == doctest::Approx(20'000).epsilon(0.01));
    CHECK(block.at("other_fresh_fraction") == 1);
    const Outcome table = simulate(arguments);
    CHECK(table.code == 0);
    CHECK(says(table, "2 of 8 ranks at R 20.00"));
  }
}

TEST_CASE("a trace is repeated: its rates, its steps, its ranks") {
  const TemporaryDirectory dir;
  write_trace(dir / "steps.0.jsonl", 3000);
  write_trace(dir / "steps.1.jsonl", 3000);
  const Json runs = results({"--trace", dir.path().string()});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].at("ranks") == 2);
  CHECK(runs[0].at("steps") == 3000);
  CHECK(runs[0].at("R").get<double>() == doctest::Approx(3).epsilon(0.01));
  CHECK(runs[0].at("fresh_fraction").get<double>() == doctest::Approx(1. / 3).epsilon(0.03));
}

TEST_CASE("a recommendation is a configuration that can be used as it stands") {
  const TemporaryDirectory dir;
  write_trace(dir / "steps.0.jsonl", 3000);
  const Outcome outcome = simulate({"--trace", dir.path().string(), "--recommend"});
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  CHECK(says(outcome, "[queue]"));
  CHECK(says(outcome, "R 3.00"));
  CHECK(says(outcome, "# recommended"));
  std::ofstream(dir / "recommended.toml") << outcome.output;
  CHECK(results({(dir / "recommended.toml").string(), "--steps", "100"}).size() == 1);
}

TEST_CASE("what is said to be recorded is what all ranks recorded") {
  const TemporaryDirectory dir;
  write_trace(dir / "steps.0.jsonl", 3000, 2);
  write_trace(dir / "steps.1.jsonl", 3000, 6);
  const Outcome outcome = simulate({"--trace", dir.path().string(), "--recommend"});
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  CHECK(says(outcome, "R 4.00 (2.00 to 6.00 by rank)"));
  CHECK(says(outcome, "# recorded        33.3    0.00         -     6     6"));  // (1 / 2 + 1 / 6) / 2 of the steps
  CHECK(says(outcome, "# configured      33."));
  CHECK(results({"--trace", dir.path().string()})[0].at("R").get<double>() == doctest::Approx(4).epsilon(0.01));
}

TEST_CASE("more memory is not recommended to a run whose batches always come in time") {
  const TemporaryDirectory dir;
  {
    std::ofstream out(dir / "steps.0.jsonl");
    for (int step = 0; step < 3000; ++step) {  // of 10 ms; a batch could come every 2.5 ms
      out << Json{{"step", step},
                  {"epoch", 0},
                  {"batch", step},
                  {"use_index", 0},
                  {"depth", 16},
                  {"wait_s", 0},
                  {"t_s", 0.01 * step},
                  {"produced", 17 + step},
                  {"step_s", step == 0 ? 0 : 0.01},
                  {"blocked_producer_s", 0.0075 * step}}
                 .dump()
          << "\n";
    }
  }
  const Outcome outcome = simulate({"--trace", dir.path().string(), "--recommend"});
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  CHECK(says(outcome, "R 0.25"));
  CHECK(says(outcome, "capacity = 4\n"));
}

TEST_CASE("the configuration says how the ranks decide, unless the command does") {
  const std::vector<std::string> lockstep{"--set", "mpi.mode=lockstep", "--ranks", "2", "--steps", "100"};
  CHECK(results(lockstep)[0].at("mode") == "lockstep");
  std::vector<std::string> local = lockstep;
  local.insert(local.end(), {"--mode", "local"});
  CHECK(results(local)[0].at("mode") == "local");
  CHECK(results({"--steps", "100"})[0].at("mode") == "local");
}

TEST_CASE("what cannot be simulated is refused by name") {
  const TemporaryDirectory dir;
  const std::string empty = dir.path().string();
  std::ofstream(dir / "bad.jsonl") << "{\"step\": 0}\n{\"step\": 1}\n";
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  };
  for (const Case& one : {
           Case{{"--policy", "greddy"}, 2, "policy.name = \"greddy\": there is no such policy"},
           Case{{"--source", "gaussian"}, 2, "--source"},
           Case{{"-R", "0"}, 2, "--ratio: Value 0 not in range"},
           Case{{"--source", "gamma", "--cv", "0"}, 2, "cv must be in (0, 10]"},
           Case{{"--source", "outages", "--on", "0"}, 2, "on must be above 0"},
           Case{{"--sigma", "2", "--source", "constant"}, 2, "--sigma changes nothing with --source constant"},
           Case{{"--on", "5"}, 2, "leave it out, or give --source outages|contention"},
           Case{{"--source", "outages", "--slowdown", "9"}, 2, "--slowdown changes nothing with --source outages"},
           Case{{"--trace", empty, "--cv", "3"}, 2, "--cv changes nothing with --trace"},
           Case{{"--seed", "-1"}, 2, "--seed: expected 0 or more, found -1"},
           Case{{"--recommend"}, 2, "--trace"},
           Case{{"--trace", empty, "--recommend", "--json", "-"}, 2, "excludes"},
           Case{{"--slow-ranks", "1"}, 2, "--slow-ratio"},
           Case{{"--slow-ranks", "2", "--slow-ratio", "20"}, 2, "--slow-ranks 2 of --ranks 1"},
           Case{{"--trace", empty, "--slow-ranks", "1", "--slow-ratio", "20"}, 2, "excludes"},
           Case{{"--trace", empty}, 1, "has no steps.RANK.jsonl"},
           Case{{"--trace", (dir / "bad.jsonl").string()}, 1, "bad.jsonl:1: not a step"},
           Case{{"--trace", (dir / "none.jsonl").string()}, 1, "none.jsonl cannot be read: No such file or directory"},
           Case{{"--trace", empty, "--source", "constant"}, 2, "excludes"},
           Case{{"--mode", "lockstep", "--set", "queue.capacity=2"}, 2, "queue.capacity > mpi.lag"},
           Case{{"--json", empty + "/no/such/place"}, 2, "--json: cannot write"},
           Case{{"--record", empty + "/run"}, 2, "name a CONFIG that has dataset.path"},
           Case{{"--step-s", "0.1"}, 2, "--record"},
           Case{{"--record", "x", "--set", "dataset.path=x", "--set", "dataset.order=local"}, 2, "needs dataset.nodes"},
       }) {
    const Outcome outcome = simulate(one.arguments);
    CAPTURES(outcome.output, one.message);
    CHECK(outcome.code == one.code);
    CHECK(says(outcome, one.message));
  }
}

// Compares the simulator with the real feeder: a run with threads, files and time, replayed without
// any of them.

Json replayed(Workplace& place, const std::string& name, const std::string& policy) {
  const auto outcome =
      testing::run(place.dir.path(), 1,
                   {"simulate", place.config.string(), "--trace", (place.dir / (name + ".run")).string(), "--policy",
                    policy, "--no-optimum", "--json", "-"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  return Json::parse(outcome.output).at(0);
}

// The recording includes everything that happened, even a busy machine, so that cannot make the two
// differ.
TEST_CASE("a recorded run replayed in the simulator serves as many fresh batches, as evenly") {
  if (testing::kSanitized) return;  // steps depend on the clock
  const std::string steady = "latency_ms = 20.0\n";
  const std::string bursty =
      "latency_ms = 3.0\njitter = 1.0\nbandwidth_mb_s = 1.0\noutage_every_s = 0.1\noutage_s = 0.05\n";
  for (const auto& [policy, store] : {std::pair("adaptive", steady), std::pair("adaptive", bursty),
                                      std::pair("proportional", bursty), std::pair("greedy", bursty)}) {
    CAPTURES(policy, store);
    Workplace place("[storage]\n" + store);
    const auto outcome = place.feed(
        1, "real", {"--steps", "500", "--set", "trainer.step_ms=5", "--set", std::string("policy.name=") + policy});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    const Json real = place.summary("real");
    const Json simulated = replayed(place, "real", policy);
    CAPTURES(real.dump(), simulated.dump());
    CHECK(real.at("fresh_fraction") < 1);  // otherwise it would prove little
    CHECK(std::abs(real.at("fresh_fraction").get<double>() - simulated.at("fresh_fraction").get<double>()) <= 0.02);
    CHECK(std::abs(real.at("uses_p99").get<int>() - simulated.at("uses_p99").get<int>()) <= 2);
    CHECK(simulated.at("steps") == 500);
  }
}

}  // namespace
}  // namespace forebay::test_simulate_command

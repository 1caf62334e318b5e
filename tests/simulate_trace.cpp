// The simulator compared with the real feeder: a run with threads, files and time, replayed without any of them.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "workplace.hpp"

namespace forebay {
namespace {

using testing::Workplace;
using Json = nlohmann::json;

Json replayed(Workplace& place, const std::string& name, const std::string& policy) {
  const auto outcome =
      testing::run(place.dir.path(), 1,
                   {"simulate", place.config.string(), "--trace", (place.dir / (name + ".run")).string(), "--policy",
                    policy, "--no-optimum", "--json", "-"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  return Json::parse(outcome.output).at(0);
}

// The recording includes whatever the run met, even a busy machine, so that does not make the two differ.
TEST_CASE("a recorded run replayed in the simulator serves as many fresh batches, as evenly") {
  const std::string steady = "latency_ms = 10.0\n";
  const std::string bursty =
      "latency_ms = 3.0\njitter = 1.0\nbandwidth_mb_s = 1.0\noutage_every_s = 0.1\noutage_s = 0.05\n";
  for (const auto& [policy, store] : {std::pair("adaptive", steady), std::pair("adaptive", bursty),
                                      std::pair("proportional", bursty), std::pair("greedy", bursty)}) {
    CAPTURE(policy);
    CAPTURE(store);
    Workplace place("[storage]\n" + store);
    const auto outcome = place.feed(
        1, "real", {"--steps", "500", "--set", "trainer.step_ms=5", "--set", std::string("policy.name=") + policy});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    const Json real = place.summary("real");
    const Json simulated = replayed(place, "real", policy);
    CAPTURE(real.dump());
    CAPTURE(simulated.dump());
    CHECK(real.at("fresh_fraction") < 0.9);  // otherwise it would prove little
    CHECK(std::abs(real.at("fresh_fraction").get<double>() - simulated.at("fresh_fraction").get<double>()) <= 0.02);
    CHECK(std::abs(real.at("uses_p99").get<int>() - simulated.at("uses_p99").get<int>()) <= 2);
    CHECK(simulated.at("steps") == 500);
  }
}

}  // namespace
}  // namespace forebay

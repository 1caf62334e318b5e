#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "dataset_support.hpp"
#include "measure/recording.hpp"
#include "order/job_state.hpp"
#include "simulate/simulation.hpp"
#include "simulate/trace.hpp"
#include "states.hpp"
#include "support.hpp"
#include "targets.hpp"

using namespace forebay::measure;
using namespace forebay::order;
using namespace forebay::simulate;

// Texts: configurations, saved states, recorded decisions and traces.
namespace forebay::fuzz {
namespace {

// Reports a broken promise as an error that is not one of Forebay's, so nothing that catches those
// catches it.
[[noreturn]] void broken(const std::string& promise) { throw std::logic_error(promise); }

}  // namespace

// A configuration, and then overrides, each after a zero byte. What is accepted must be written and
// read back unchanged.
bool use_config(std::string_view input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::vector<std::string> overrides;
  for (std::size_t at = end; at < input.size() && overrides.size() < 8;) {
    const std::size_t next = std::min(input.find('\0', at + 1), input.size());
    overrides.emplace_back(input.substr(at + 1, next - at - 1));
    at = next;
  }
  std::string written;
  try {
    written = to_toml(parse_options(input.substr(0, end), "input", overrides));
  } catch (const ConfigError&) {
    return false;
  }
  try {
    if (to_toml(parse_options(written, "written")) != written) broken("what to_toml() writes is read differently");
  } catch (const ConfigError& error) {
    broken(std::string("what to_toml() writes is refused: ") + error.what());
  }
  return true;
}

std::vector<std::string> config_seeds() {
  using namespace std::string_literals;
  return {to_toml(Options()),
          "seed = 7\n[dataset]\npath = \"d\"\n[transform]\nsize = [32, 48]\nmean = [0.1, 0.2, 0.3]\n",
          "[dataset]\npath = \"d\"\n\0queue.capacity=\"auto\"\0transform.mirror=0.25"s};
}

// The state with a valid checksum and, unless they are compressed already, compressed ranges.
bool use_state(std::string_view input) {
  std::string text(input);
  auto json = nlohmann::ordered_json::parse(input, nullptr, false);
  if (json.is_object()) {
    try {
      if (json.contains("left") && !json["left"].contains("zlib")) json["left"] = testing::packed(json["left"].dump());
      text = testing::sealed(json);
    } catch (const nlohmann::json::exception&) {  // not UTF-8
    }
  }
  JobState state;
  try {
    state = parse_state(text, "input");
  } catch (const ConfigError&) {
    return false;
  }
  if (parse_state(to_text(state), "written") != state) broken("what to_text() writes is another state");
  return true;
}

std::vector<std::string> state_seeds() {
  const std::string text = to_text(testing::small_state());
  auto open = nlohmann::ordered_json::parse(text);
  open["left"] = testing::unpacked(open["left"]);
  return {text, open.dump()};
}

bool use_recording(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  testing::replace_file(folder / "decisions.0.jsonl", input);
  try {
    (void)read_recording(folder / "decisions.0.jsonl");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::vector<std::string> recording_seeds() {
  const std::vector<std::uint64_t> runs{3, 2, 1};
  return {header_line({}) + decisions_line(0, runs),
          header_line({}) + decisions_line(0, runs) + decisions_line(6, runs, std::vector<std::uint64_t>{0, 2, 4})};
}

// The simulator gets to the end of any trace that is accepted, with figures that are numbers.
bool use_trace(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  static const PolicyRegistry registry = PolicyRegistry::builtin();
  testing::replace_file(folder / "steps.0.jsonl", input);
  std::vector<Trace> traces;
  try {
    traces = read_traces(folder / "steps.0.jsonl");
  } catch (const Error&) {
    return false;
  }
  for (const char* const policy : {"adaptive", "block"}) {
    Scenario scenario = scenario_of(traces);
    scenario.policy.name = policy;
    const Outcome outcome = simulate::simulate(scenario, registry);
    if (!std::isfinite(outcome.wall_s + outcome.stall_s + outcome.evenness)) broken("a figure that is no number");
  }
  return true;
}

std::vector<std::string> trace_seeds() {
  std::string lines;
  for (int step = 0; step < 6; ++step) {
    const auto number = [](double value) { return nlohmann::json(value).dump(); };
    lines += R"({"step":)" + std::to_string(step) + R"(,"t_s":)" + number(0.01 * step) + R"(,"epoch":0,"batch":)" +
             std::to_string(step / 2) + R"(,"use_index":)" + std::to_string(step % 2) + R"(,"depth":)" +
             std::to_string(step % 3) + R"(,"wait_s":0.001,"step_s":)" + number(step == 0 ? 0 : 0.009) +
             R"(,"produced":)" + std::to_string(1 + step / 2) + R"(,"blocked_producer_s":0.0})" + "\n";
  }
  return {lines, lines + lines.substr(0, 100)};
}

}  // namespace forebay::fuzz

#include "once_logs.hpp"

#include <cstddef>
#include <fstream>

#include <nlohmann/json.hpp>

namespace forebay::testing {
namespace {

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Of each step whether the runs of a recording, which alternate and begin with `value`, say so.
std::vector<bool> steps_of(const nlohmann::json& runs, bool value) {
  std::vector<bool> steps;
  for (const nlohmann::json& run : runs) {
    steps.insert(steps.end(), run.get<std::size_t>(), value);
    value = !value;
  }
  return steps;
}

// Of each step: what was decided, and whether padding was served.
struct RecordedSteps {
  std::vector<bool> fresh;
  std::vector<bool> padded;
};

RecordedSteps recorded_in(const std::filesystem::path& file) {
  RecordedSteps recorded;
  for (const nlohmann::json& line : lines_of(file)) {
    if (!line.contains("runs")) continue;  // the head
    const std::vector<bool> fresh = steps_of(line.at("runs"), true);
    recorded.fresh.insert(recorded.fresh.end(), fresh.begin(), fresh.end());
    const std::vector<bool> padded = steps_of(line.value("padded", nlohmann::json::array()), false);
    recorded.padded.insert(recorded.padded.end(), padded.begin(), padded.end());
    recorded.padded.resize(recorded.fresh.size());
  }
  return recorded;
}

}  // namespace

std::vector<std::string> check_logs(const std::filesystem::path& folder, std::uint32_t rank, std::uint64_t first_step,
                                    Seen& seen) {
  const std::string name = std::to_string(rank);
  const auto lines = lines_of(folder / ("steps." + name + ".jsonl"));
  if (lines.size() != seen.steps.size()) return {};  // a disk that is too slow loses some
  seen.is_logged = 1;
  std::vector<std::string> wrong;
  for (std::size_t step = 0; step < lines.size(); ++step) {
    StepSeen& mine = seen.steps[step];
    mine.is_padding = lines[step].at("padding").get<bool>() ? 1 : 0;
    const bool is_fresh = lines[step].at("decision") == "fresh" && mine.is_padding == 0;
    if (lines[step].at("use_index") != mine.use_index || is_fresh != (mine.use_index == 0)) {
      wrong.push_back("the line of step " + std::to_string(step) + " says " + lines[step].dump());
    }
  }
  const std::string from = first_step > 0 ? ".from-" + std::to_string(first_step) : "";
  const RecordedSteps recorded = recorded_in(folder / ("decisions." + name + from + ".jsonl"));
  if (recorded.fresh.size() != seen.steps.size()) {
    wrong.push_back(std::to_string(recorded.fresh.size()) + " of " + std::to_string(seen.steps.size()) +
                    " decisions are recorded");
    return wrong;
  }
  for (std::size_t step = 0; step < seen.steps.size(); ++step) {
    const bool is_fresh = recorded.fresh[step] && !recorded.padded[step];
    const StepSeen& mine = seen.steps[step];
    if (recorded.padded[step] == (mine.is_padding != 0) && is_fresh == (mine.use_index == 0)) continue;
    wrong.push_back("step " + std::to_string(step) + " is recorded as " + (recorded.fresh[step] ? "fresh" : "a reuse") +
                    (recorded.padded[step] ? ", padded" : "") + " and was use " + std::to_string(mine.use_index));
    break;
  }
  return wrong;
}

}  // namespace forebay::testing

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "dataset_support.hpp"
#include "measure/counters.hpp"
#include "measure/figures.hpp"
#include "measure/run_log.hpp"
#include "report/live_run.hpp"
#include "report/page.hpp"
#include "report/run_data.hpp"
#include "support.hpp"
#include "targets.hpp"

using namespace forebay::measure;
using namespace forebay::report;

// Telemetry as `forebay report` and `forebay top` read it. It may come from another machine, and
// may have been cut or changed on the way.
namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFiles = 4;

// The files of two ranks. The second has only its log, so that figures are combined.
fs::path file(const fs::path& folder, std::size_t number) {
  constexpr const char* kNames[kFiles] = {"run.0.jsonl", "steps.0.jsonl", "intervals.0.jsonl", "run.1.jsonl"};
  return folder / kNames[number];
}

bool look_live(const fs::path& folder) {
  LiveRun run(folder);
  for (const double now_s : {0.0, 1.0}) {
    run.look(now_s);
    for (const std::string& text : {live_table(run, "run", 10), live_line(run)}) {
      // The terminal must not obey what a file says.
      if (std::ranges::any_of(text, [](char c) { return c == '\0' || c == '\a' || c == '\b'; })) {
        throw std::logic_error("a control character of a file is shown");
      }
    }
  }
  return !run.ranks().empty();
}

// Reports on all the files, first whole and then with limits, as if they were too large to be read
// whole.
bool report(const fs::path& folder) {
  bool is_accepted = false;
  for (const ReadLimits& limits : {ReadLimits{}, ReadLimits{.steps = 64, .intervals = 200}}) {
    try {
      std::vector<RunData> runs{read_run(folder, limits, {})};
      name_runs(runs);
      const std::string page = report_page(runs, "now");
      if (!page.starts_with(kReportMark)) throw std::logic_error("a page that is not known as a report");
      if (page.find("<script") != std::string::npos) throw std::logic_error("what a file says is markup in the page");
      is_accepted = true;
    } catch (const Error&) {
    }
  }
  return is_accepted;
}

}  // namespace

// The input is the files, one after the other, separated by zero bytes. An empty part means no such
// file.
bool use_telemetry(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  for (std::size_t number = 0; number < kFiles; ++number) {
    const std::size_t end = number + 1 < kFiles ? std::min(input.find('\0'), input.size()) : input.size();
    const fs::path name = file(folder.path(), number);
    if (end == 0)
      fs::remove(name);
    else
      testing::replace_file(name, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  const bool is_live = look_live(folder.path());
  return report(folder.path()) && is_live;
}

std::vector<std::string> telemetry_seeds() {
  const Settings settings{{"policy.name", "\"greedy\""}, {"queue.capacity", "16"}};
  std::string steps;
  std::string intervals;
  for (std::uint64_t i = 0; i < 5; ++i) {
    StepRecord record;
    record.step = i;
    record.use_index = i % 2;
    record.t_s = 0.1 * static_cast<double>(i);
    record.wait_s = 0.02;
    record.step_s = i == 0 ? 0 : 0.08;
    record.depth = 2;
    record.served = i % 2 == 0 ? Decision::fresh : Decision::reuse;
    append_json(steps, record);
    Interval interval;
    interval.t_s = 5 * static_cast<double>(i + 1);
    interval.interval_s = 5;
    interval.step_num = 50 * (i + 1) - 1;
    append_json(intervals, interval);
  }
  const std::string zero(1, '\0');
  const std::string first = head_line({.rank = 0, .ranks = 2, .settings = settings});
  const std::string second = head_line({.rank = 1, .ranks = 2});
  const std::string end = end_line({.summary = Summary{}, .profile = Profile{}});
  return {first + end + zero + steps + zero + intervals + zero + second + end, first + zero + steps + zero + zero,
          first + zero + zero + intervals + zero + second};
}

}  // namespace forebay::fuzz

#pragma once

// For tests of jobs that are stopped or killed and go on from their state: the command as a user starts it.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "order/job_state.hpp"
#include "order/state_file.hpp"
#include "process.hpp"
#include "workplace.hpp"

namespace forebay::testing {

// A job that keeps its state, with its logs and telemetry, in one folder over all its parts.
struct StateJob {
  Workplace place;
  std::filesystem::path state = place.dir / "run" / "feed.state";
  std::filesystem::path ids = place.dir / "ids";

  explicit StateJob(const std::string& more = "") : place(more) {}

  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all{
        "feed",      place.config.string(), "--state", state.string(),
        "--log-ids", ids.string(),          "--set",   "telemetry.dir=\"" + (place.dir / "run").string() + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A part that ends by itself.
  Outcome run(int ranks, const std::vector<std::string>& more) const {
    return testing::run(place.dir.path(), ranks, arguments(more));
  }
  // What was saved; fails the test when it is no whole state.
  JobState saved() const {
    const auto text = read_state(state);
    REQUIRE(text);
    return parse_state(*text, state.string());
  }
  std::uintmax_t size_of_log(int rank) const {
    std::error_code error;
    const auto size = std::filesystem::file_size(ids / ("ids." + std::to_string(rank) + ".jsonl"), error);
    return error ? 0 : size;
  }
  std::vector<nlohmann::json> log(int rank) const {
    std::vector<nlohmann::json> lines;
    std::ifstream in(ids / ("ids." + std::to_string(rank) + ".jsonl"));
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // How often each sample was served fresh in each epoch, over all parts and ranks.
  std::map<int, std::map<int, int>> fresh() const {
    std::map<int, std::map<int, int>> times;
    for (const auto& file : std::filesystem::directory_iterator(ids)) {
      std::ifstream in(file.path());
      for (std::string text; std::getline(in, text);) {
        const auto line = nlohmann::json::parse(text);
        if (line.at("use_index") != 0) continue;
        for (const int id : line.at("ids")) ++times[line.at("epoch").get<int>()][id];
      }
    }
    return times;
  }
};

// A part of a job under way, on one rank or on several under mpirun.
class Part {
 public:
  Part(const StateJob& job, int ranks, const std::vector<std::string>& more, int patience_s = 1)
      : ranks_(ranks),
        process_(forebay_command(ranks, job.arguments(more), patience_s), job.place.dir / "part.output") {}

  // The ranks' processes, in the order in which they were started; empty while they are not all there.
  std::vector<pid_t> pids() const {
    if (ranks_ == 1) return {process_.pid()};
    std::vector<pid_t> children = process_.children();
    if (children.size() != static_cast<std::size_t>(ranks_)) children.clear();
    return children;
  }
  Process& process() noexcept { return process_; }

  // How the command ended, within the limit; no process of it is left then.
  Outcome end(const std::vector<pid_t>& pids, std::chrono::seconds limit) {
    const int code = process_.wait(limit);
    for (const pid_t pid : pids) CHECK(eventually([&] { return has_ended(pid); }, std::chrono::seconds(20)));
    return {code, process_.output()};
  }

 private:
  int ranks_;
  Process process_;
};

}  // namespace forebay::testing

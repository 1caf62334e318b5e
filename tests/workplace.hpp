#pragma once

// For tests that start the command as a user does, on one rank or several.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "support.hpp"

namespace forebay::testing {

struct Outcome {
  int code;
  std::string output;
};

// Once a rank has failed, mpirun sends the others SIGTERM after `patience_s`, and SIGKILL after as long again; once it
// was signalled itself, it sends all of them both.
inline std::vector<std::string> forebay_command(int ranks, const std::vector<std::string>& arguments,
                                                int patience_s = 1) {
  std::vector<std::string> command;
  if (ranks > 1) {
    command = {mpiexec(), "-n",  std::to_string(ranks), "--oversubscribe", "--bind-to", "none",
               "--mca",   "btl", "self,vader"};
    command.insert(command.end(), {"--mca", "odls_base_sigkill_timeout", std::to_string(patience_s)});
  }
  command.push_back(built_command());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// For an mpirun that is to be signalled: on a busy machine ranks may need more than a second to end.
constexpr int kPatient_s = 2;

inline std::vector<int> rank_counts() {
  if (mpiexec().empty()) return {1};
  if (kSanitized) return {1, 2};  // starting four instrumented processes, again and again, takes minutes
  return {1, 2, 4};
}

// What a command is tried with: on so many ranks, in this way.
template <typename Way>
struct Try {
  int ranks;
  Way way;
};

// Every number of ranks with every way.
template <typename Way>
std::vector<Try<Way>> all_tries(std::initializer_list<Way> ways) {
  std::vector<Try<Way>> tries;
  for (const int ranks : rank_counts()) {
    for (const Way& way : ways) tries.push_back({ranks, way});
  }
  return tries;
}

inline Outcome run(const std::filesystem::path& dir, int ranks, const std::vector<std::string>& arguments) {
  static std::atomic<int> count{0};
  Process process(forebay_command(ranks, arguments), dir / ("output." + std::to_string(count++)));
  const int code = process.wait();
  return {code, process.output()};
}

// A generated VOC set and a configuration for it, in a folder of their own.
struct Workplace {
  TemporaryDirectory dir;
  std::filesystem::path config = dir / "feed.toml";

  explicit Workplace(const std::string& more = "") {
    const auto made = run(dir.path(), 1,
                          {"make-dataset", (dir / "data").string(), "--images", "40", "--classes", "4", "--seed", "3",
                           "--size", "96x72"});
    REQUIRE_MESSAGE(made.code == 0, made.output);
    std::ofstream(config) << "seed = 5\n"
                             "[dataset]\nformat = \"voc\"\npath = \""
                          << (dir / "data").string()
                          << "\"\nbatch_size = 4\ndrop_last = false\n"
                             "[transform]\nsize = [24, 32]\n"
                             "[workers]\nio = 3\ndecode = 2\n"
                             "[queue]\ncapacity = 4\n"
                             "[telemetry]\ninterval_s = 0\n"
                             "[trainer]\nstep_ms = 0\n"
                          << more;
  }

  Outcome feed(int ranks, const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"feed",      config.string(),
                                       "--log-ids", (dir / name).string(),
                                       "--summary", (dir / (name + ".json")).string(),
                                       "--set",     "telemetry.dir=\"" + (dir / (name + ".run")).string() + "\""};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(dir.path(), ranks, arguments);
  }
  // Lines of the id logs of all ranks.
  std::vector<nlohmann::json> served(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    for (const auto& file : std::filesystem::directory_iterator(dir / name)) {
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  // Fresh batches as (epoch, batch) -> hash; each must appear once.
  std::map<std::pair<int, int>, std::string> hashes(const std::string& name) const {
    std::map<std::pair<int, int>, std::string> found;
    for (const nlohmann::json& line : served(name)) {
      if (line.at("use_index") != 0 || line.at("ids").empty()) continue;
      const bool is_new = found
                              .emplace(std::pair(line.at("epoch").get<int>(), line.at("batch").get<int>()),
                                       line.at("hash").get<std::string>())
                              .second;
      CHECK(is_new);
    }
    return found;
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(read_text(dir / (name + ".json")));
  }
};

}  // namespace forebay::testing

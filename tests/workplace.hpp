#pragma once

// For tests that start the command as a user does, on one or several ranks.
#include <csignal>
#include <nlohmann/json.hpp>

#include "order/job_state.hpp"
#include "order/state_file.hpp"
#include "process.hpp"
#include "test.hpp"

namespace forebay::testing {

using Outcome = Ended;

// After a rank has failed, mpirun sends the others SIGTERM after `patience_s`, and SIGKILL after
// the same time again. If mpirun itself receives a signal, it sends both to all of them.
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

// For an mpirun that will be signalled: on a busy machine ranks may need more than a second to end.
constexpr int kPatient_s = 2;

inline std::vector<int> rank_counts() {
  if (mpiexec().empty()) return {1};
  if (kSanitized) return {1, 2};  // starting four instrumented processes over and over takes minutes
  return {1, 2, 4};
}

// A number of ranks and a variant with which to try a command.
template <typename Way>
struct Try {
  int ranks;
  Way way;
};

// Every number of ranks combined with every variant.
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

// A generated VOC dataset and a configuration for it, in a temporary folder.
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
  // The lines of all ranks' id logs.
  std::vector<nlohmann::json> served(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    for (const auto& file : std::filesystem::directory_iterator(dir / name)) {
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  // The hashes of fresh batches by (epoch, batch); each must appear once.
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

// A job whose state, logs and telemetry are in the same folder for all its parts.
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
  // Runs a part that ends by itself.
  Outcome run(int ranks, const std::vector<std::string>& more) const {
    return testing::run(place.dir.path(), ranks, arguments(more));
  }
  // The saved state; fails the test if it is incomplete.
  order::JobState saved() const {
    const auto text = order::read_state(state);
    REQUIRE(text);
    return order::parse_state(*text, state.string());
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

// A running part of a job, on one rank or on several under mpirun.
class Part {
 public:
  Part(const StateJob& job, int ranks, const std::vector<std::string>& more, int patience_s = 1)
      : ranks_(ranks),
        process_(forebay_command(ranks, job.arguments(more), patience_s), job.place.dir / "part.output") {}

  // The processes of the ranks in the order of their start; empty until all exist.
  std::vector<pid_t> pids() const {
    if (ranks_ == 1) return {process_.pid()};
    std::vector<pid_t> children = process_.children();
    if (children.size() != static_cast<std::size_t>(ranks_)) children.clear();
    return children;
  }
  Process& process() noexcept { return process_; }

  // Waits for the command to end, within the limit, and checks that none of its processes is left.
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

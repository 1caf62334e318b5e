// One rank of a job on several hosts, and the audit of what all ranks saw. matrix.py starts it.
//   hosts_rank data KEY=VALUE...    writes the data set of one host
//   hosts_rank rank KEY=VALUE...    under mpirun: a part of the job
//   hosts_rank audit KEY=VALUE...   whether each sample was served once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <forebay/order.hpp>
#include <nlohmann/json.hpp>

#include "dataset_support.hpp"
#include "every_container.hpp"
#include "memory_dataset.hpp"
#include "once_job.hpp"

// The job that the hosts run: in its first part something happens to a host, the second resumes from the last state
// that was saved, and runs to its end.
namespace forebay::experiments {
namespace {

struct JobSettings {
  std::filesystem::path folder;   // "data": each host's own; "shared": what all see
  std::uint32_t ranks = 2;        // of the first part
  std::uint32_t ranks_after = 2;  // of the second
  std::uint64_t epochs = 4;       // of 250 batches of four samples
  std::uint64_t save_every = 10;  // steps
  double step_ms = 10;            // of the emulated trainer
  double watchdog_s = 60;
  bool in_lockstep = false;
  bool all_reduces = false;  // the trainer has a collective of its own in each step
  std::uint32_t part = 0;    // 0 or 1

  [[nodiscard]] std::filesystem::path data() const { return folder / "data"; }
  [[nodiscard]] std::filesystem::path state() const { return folder / "shared" / "feed.state"; }
  // What a rank of a part saw: a line for each step, and how the part ended for it.
  [[nodiscard]] std::filesystem::path steps_seen(std::uint32_t of_part, std::uint32_t rank) const;
  [[nodiscard]] std::filesystem::path end_seen(std::uint32_t of_part, std::uint32_t rank) const;
};

constexpr std::uint64_t kSamples = 1000;
constexpr std::int64_t kBatchSize = 4;

std::filesystem::path of_rank(const std::filesystem::path& folder, std::uint32_t part, std::uint32_t rank,
                              const char* what) {
  return folder / "shared" / (std::to_string(part) + "." + std::to_string(rank) + "." + what);
}

std::filesystem::path JobSettings::steps_seen(std::uint32_t of_part, std::uint32_t rank) const {
  return of_rank(folder, of_part, rank, "steps");
}

std::filesystem::path JobSettings::end_seen(std::uint32_t of_part, std::uint32_t rank) const {
  return of_rank(folder, of_part, rank, "end");
}

// Throws std::invalid_argument.
JobSettings parse_settings(int argc, char** argv) {
  JobSettings settings;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument(std::string(argument) + " is not KEY=VALUE");
    const std::string_view key = argument.substr(0, equals);
    const std::string value(argument.substr(equals + 1));
    const auto whole = [&] { return std::stoull(value); };
    if (key == "folder") {
      settings.folder = value;
    } else if (key == "ranks") {
      settings.ranks = static_cast<std::uint32_t>(whole());
    } else if (key == "ranks_after") {
      settings.ranks_after = static_cast<std::uint32_t>(whole());
    } else if (key == "epochs") {
      settings.epochs = whole();
    } else if (key == "save_every") {
      settings.save_every = whole();
    } else if (key == "step_ms") {
      settings.step_ms = std::stod(value);
    } else if (key == "watchdog_s") {
      settings.watchdog_s = std::stod(value);
    } else if (key == "lockstep") {
      settings.in_lockstep = whole() != 0;
    } else if (key == "all_reduce") {
      settings.all_reduces = whole() != 0;
    } else if (key == "part") {
      settings.part = static_cast<std::uint32_t>(whole());
    } else {
      throw std::invalid_argument("there is no setting " + std::string(key));
    }
  }
  return settings;
}

testing::OnceCase job_of(const JobSettings& settings) {
  testing::OnceCase job{
      .number = 0, .samples = kSamples, .container = "webdataset with fields", .bad = {}, .parts = {}};
  const testing::ContainerKind& kind = testing::container_of(job.container);
  for (const std::uint32_t ranks : {settings.ranks, settings.ranks_after}) {
    testing::Part part;
    part.ranks = ranks;
    part.options = testing::memory_options(kBatchSize);
    part.options.dataset.path = (settings.data() / kind.path).string();
    part.options.run.epochs = static_cast<std::int64_t>(settings.epochs);
    part.options.transform.size = {1, 1};
    part.options.policy.name = "adaptive";
    part.options.policy.watchdog_s = settings.watchdog_s;
    part.options.mpi.mode = settings.in_lockstep ? MpiMode::lockstep : MpiMode::local;
    testing::add_fields(part.options, kind);
    job.parts.push_back(std::move(part));
  }
  return job;
}

using testing::FreshSeen;
using testing::OnceAudit;
using testing::OnceCase;
using testing::Seen;

// The steps that a rank wrote down, of which a kill may have cut the last line.
Seen read_steps(const std::filesystem::path& file) {
  Seen seen;
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line) && !lines.eof()) {
    std::istringstream words(line);
    testing::StepSeen step;
    FreshSeen fresh{.step = seen.steps.size()};
    words >> step.job_fresh_samples >> step.epochs_completed >> step.fresh_samples >> fresh.epoch >> fresh.batch;
    seen.steps.push_back(step);
    if (step.fresh_samples > 0) seen.fresh.push_back(fresh);
  }
  return seen;
}

bool has_ended(const JobSettings& settings, std::uint32_t part, std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string how = testing::read_text(settings.end_seen(part, rank));
    if (!how.ends_with(" end\n")) return false;
  }
  return true;
}

struct PartSeen {
  std::vector<Seen> ranks;
  std::uint64_t kept = 0;  // of its steps, those before the state that was saved last
  bool has_ended = false;
};

// `before`: steps of the job before this part. Nothing when the part has not saved a state.
std::optional<PartSeen> read_part(const JobSettings& settings, std::uint32_t part, std::uint32_t ranks,
                                  std::uint64_t before) {
  const std::string text = testing::read_text(settings.folder / "shared" / (std::to_string(part) + ".state"));
  if (text.empty()) return std::nullopt;
  const testing::ReadState state = testing::read_state_text(text);
  PartSeen seen{.ranks = {}, .kept = state.steps - before, .has_ended = has_ended(settings, part, ranks)};
  std::size_t steps = SIZE_MAX;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    seen.ranks.push_back(read_steps(settings.steps_seen(part, rank)));
    steps = std::min(steps, seen.ranks.back().steps.size());
  }
  for (Seen& rank : seen.ranks) {
    rank.steps.resize(steps);
    std::erase_if(rank.fresh, [steps](const FreshSeen& fresh) { return fresh.step >= steps; });
    rank.states.push_back({seen.kept, text});
    rank.steps_at_end = state.steps;
    rank.epochs_at_end = state.epochs;
    rank.has_ended = seen.has_ended ? 1 : 0;
    if (steps < seen.kept) rank.complaints.emplace_back("the state is of a step that a rank has not made");
  }
  return seen;
}

// How often each batch of the job was served fresh before the state that the job goes on from.
class Counts {
 public:
  void add(const PartSeen& part) {
    for (const Seen& rank : part.ranks) {
      for (const FreshSeen& fresh : rank.fresh) {
        if (fresh.step >= part.kept) continue;
        ++times_[{fresh.epoch, fresh.batch}];
        samples_of_[fresh.batch] = rank.steps[fresh.step].fresh_samples;
      }
    }
  }
  [[nodiscard]] std::uint64_t doubled() const {
    std::uint64_t samples = 0;
    for (const auto& [batch, times] : times_) samples += (times - 1) * samples_of_.at(batch.second);
    return samples;
  }
  [[nodiscard]] std::uint64_t served() const {
    std::uint64_t samples = 0;
    for (const auto& [batch, times] : times_) samples += samples_of_.at(batch.second);
    return samples;
  }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> times_;  // by epoch and batch
  std::map<std::uint64_t, std::uint64_t> samples_of_;                       // by batch
};

// Whether each sample was served once: prints a line of JSON, and returns the program's exit code.
int audit(const JobSettings& settings) {
  OnceCase job = job_of(settings);
  const std::uint64_t samples = job.samples * settings.epochs;
  std::vector<PartSeen> seen;
  std::vector<testing::Part> parts;
  std::uint64_t before = 0;
  for (std::uint32_t part = 0; part < job.parts.size(); ++part) {
    auto read = read_part(settings, part, job.parts[part].ranks, before);
    if (!read) continue;  // what it served is served again
    testing::Part made = std::move(job.parts[part]);
    made.stop = read->has_ended ? testing::StopBy::end : testing::StopBy::checkpoint;
    made.steps = read->kept;
    made.lost_steps = read->ranks.front().steps.size() - std::min(read->kept, read->ranks.front().steps.size());
    before += read->kept;
    parts.push_back(std::move(made));
    seen.push_back(*std::move(read));
  }
  if (parts.empty()) throw std::runtime_error("no part of the job has saved a state");
  job.parts = std::move(parts);

  OnceAudit once(job);
  Counts counts;
  for (const PartSeen& part : seen) {
    counts.add(part);
    once.add(part.ranks);
  }
  const nlohmann::ordered_json result{{"lost", samples - counts.served()},
                                      {"doubled", counts.doubled()},
                                      {"ended", seen.back().has_ended},
                                      {"kept_steps", seen.front().kept},
                                      {"violations", once.violations()}};
  std::printf("%s\n", result.dump().c_str());
  const bool is_right = counts.served() == samples && counts.doubled() == 0 && once.violations().empty();
  return is_right && seen.back().has_ended ? 0 : 1;
}

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// A rank may be killed at any time: what it saw lies in files that outlive it.
class Witness {
 public:
  Witness(const JobSettings& settings, const MpiSession& mpi)
      : end_(settings.end_seen(settings.part, static_cast<std::uint32_t>(mpi.rank()))),
        steps_(settings.steps_seen(settings.part, static_cast<std::uint32_t>(mpi.rank()))) {}

  void saw(const Lease& batch, std::uint64_t epochs_completed) {
    steps_ << batch.job_fresh_samples() << ' ' << epochs_completed << ' ' << (batch.is_fresh() ? batch.size() : 0)
           << ' ' << batch.epoch() << ' ' << batch.batch() << std::endl;
  }
  // Keeps the first.
  void ended(std::string_view how) {
    if (!has_ended_) std::ofstream(end_) << std::fixed << now_s() << ' ' << how << std::endl;
    has_ended_ = true;
  }

 private:
  bool has_ended_ = false;
  std::filesystem::path end_;
  std::ofstream steps_;
};

void require_content(const Lease& batch, const Order& order, const testing::ContainerKind& kind) {
  const std::uint64_t first = batch.batch() * order.options().batch_size;
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const std::uint64_t id = order.sample(batch.epoch(), first + i);
    if (batch.ids()[i] != id || !testing::is_sample(batch, i, id, kind))
      throw std::runtime_error("step " + std::to_string(batch.step()) + " has not the samples of its batch");
  }
}

// A trainer's own all-reduce.
void share_gradients() {
  double gradient = 1;
  MPI_Allreduce(MPI_IN_PLACE, &gradient, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void train(const JobSettings& settings, const MpiSession& mpi, Witness& witness) {
  const OnceCase job = job_of(settings);
  const Options& options = job.parts[settings.part].options;
  const Order order({.samples = job.samples,
                     .batch_size = static_cast<std::uint32_t>(options.dataset.batch_size),
                     .seed = options.seed,
                     .shuffle = options.dataset.shuffle,
                     .drop_last = options.dataset.drop_last});
  const testing::ContainerKind& kind = testing::container_of(job.container);
  const std::string state = settings.state().string();
  Parts parts;
  parts.resume = state;
  Feeder feeder(options, mpi.world(), std::move(parts));
  try {
    while (const auto batch = feeder.next()) {
      witness.saw(*batch, feeder.epochs_completed());
      require_content(*batch, order, kind);
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(settings.step_ms));
      if (settings.all_reduces) share_gradients();
      if (feeder.steps() % settings.save_every == 0) feeder.save(state);
    }
    feeder.save(state);
  } catch (const Error& error) {
    witness.ended(error.what());  // before the feeder parts from the other ranks, which takes its time
    throw;
  }
  feeder.close();
}

// As docs/integration.md says: errors of the feeder are caught within the session's scope, all ranks having them.
int run_rank(int argc, char** argv, const JobSettings& settings) {
  MpiSession mpi(argc, argv);
  Witness witness(settings, mpi);
  try {
    train(settings, mpi, witness);
    witness.ended("end");
    return 0;
  } catch (const Error& error) {
    witness.ended(error.what());
    return 1;
  }
}

}  // namespace
}  // namespace forebay::experiments

int main(int argc, char** argv) {
  using namespace forebay::experiments;
  try {
    if (argc < 2) throw std::invalid_argument("hosts_rank data|rank|audit KEY=VALUE...");
    const std::string_view what = argv[1];
    const JobSettings settings = parse_settings(argc - 2, argv + 2);
    if (what == "rank") return run_rank(argc, argv, settings);
    if (what == "audit") return audit(settings);
    forebay::testing::write_container(job_of(settings), settings.data());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hosts_rank: %s\n", error.what());
    return 2;
  }
}

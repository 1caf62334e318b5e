// One part of a job of very many tiny steps with everything switched on, and what one of its ranks counted:
// readings.RANK and tally.RANK in its folder. README.md has what is read from them.
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <nlohmann/json.hpp>

#include "measure/run_files.hpp"
#include "memory_dataset.hpp"

using namespace forebay::measure;

namespace forebay::endurance {
namespace {

// What a process and its run's folder take at a moment, as the system and the C library say.
struct Reading {
  std::uint64_t resident_bytes = 0;      // the sum of the next four
  std::uint64_t resident_heap = 0;       // what malloc() took by brk()
  std::uint64_t resident_anonymous = 0;  // its other arenas, large blocks, stacks of threads
  std::uint64_t resident_shared = 0;     // memory of several processes
  std::uint64_t resident_files = 0;      // programs and libraries
  std::uint64_t proportional_bytes = 0;  // PSS: pages that processes share are divided among them
  std::uint64_t allocated_bytes = 0;     // by malloc() and not freed, or kept by a thread for its next call
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t bounded_bytes = 0;  // the largest telemetry of one kind and rank, its earlier file included
  std::uint64_t folder_bytes = 0;   // of all files
};

namespace fs = std::filesystem;

std::uint64_t entries_of(const char* folder) {
  std::uint64_t count = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++count;
  return count;
}

// What a mapping of this name is: "" has arenas of malloc() and stacks of threads.
std::uint64_t& resident_of(Reading& reading, std::string_view name) {
  if (name == "[heap]") return reading.resident_heap;
  if (name.starts_with("/dev/shm/") || name.ends_with("(deleted)")) return reading.resident_shared;
  if (name.starts_with('/')) return reading.resident_files;
  return reading.resident_anonymous;
}

void add_memory(Reading& reading) {
  std::ifstream in("/proc/self/smaps");
  std::string name;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (!key.ends_with(':')) {  // the first line of a mapping: addresses, rights, offset, device, inode, name
      std::string skipped;
      for (int i = 0; i < 4; ++i) words >> skipped;
      name.clear();
      std::getline(words >> std::ws, name);
      continue;
    }
    std::uint64_t kib = 0;
    if (key == "Rss:" && words >> kib) resident_of(reading, name) += kib << 10U;
    if (key == "Pss:" && words >> kib) reading.proportional_bytes += kib << 10U;
  }
  reading.resident_bytes =
      reading.resident_heap + reading.resident_anonymous + reading.resident_shared + reading.resident_files;
  const struct mallinfo2 info = ::mallinfo2();
  reading.allocated_bytes = info.uordblks + info.hblkhd;
}

void add_files(const fs::path& folder, Reading& reading) {
  std::map<std::pair<std::string_view, std::uint32_t>, std::uint64_t> bounded;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // renamed meanwhile
    const std::uint64_t size = it->file_size(gone);
    if (gone) continue;
    reading.folder_bytes += size;
    const std::string text = it->path().filename().string();
    const auto name = rank_file_name(text);
    if (name && (name->kind == "steps" || name->kind == "intervals")) bounded[{name->kind, name->rank}] += size;
  }
  for (const auto& [file, size] : bounded) reading.bounded_bytes = std::max(reading.bounded_bytes, size);
}

Reading read_now(const fs::path& folder) {
  Reading reading;
  reading.descriptors = entries_of("/proc/self/fd");
  reading.threads = entries_of("/proc/self/task");
  add_memory(reading);
  add_files(folder, reading);
  return reading;
}

using Clock = std::chrono::steady_clock;
using testing::MemoryDataset;

constexpr std::uint64_t kSamples = 2048;
constexpr std::uint64_t kHeldOut = 256;
constexpr std::int64_t kBatch = 4;
constexpr std::uint64_t kMostEpochs = std::uint64_t{1} << 17U;
constexpr std::uint64_t kEpochsOfEvaluation = 50;
constexpr std::uint64_t kStepsBetweenSaves = 5000;
constexpr std::uint64_t kSavesBetweenWaits = 10;
constexpr std::uint64_t kReadings = 400;

struct Arguments {
  fs::path folder;               // the run's, and what is counted beside it
  std::uint64_t steps = 0;       // of each rank
  std::uint64_t kill_after = 0;  // the step after which the job saves and is killed soon; 0: it runs to its end
  std::int64_t max_bytes = 0;
  double interval_s = 0;
};

// Fresh samples of one epoch: sums over ranks and parts say whether each sample was there exactly once.
struct Tally {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;  // of mixed ids
};

std::uint64_t mixed(std::uint64_t id) {
  id = (id + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  return (id ^ (id >> 29U)) * 0x94d049bb133111ebU;
}

// Storage that is fast, pauses for 20 ms of every 100, and on rank 1 is slow for a second of every four: so its batches
// are handed over to rank 0.
void wait_for_storage(int rank) {
  const auto now = Clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  if (ms % 100 < 20) std::this_thread::sleep_for(std::chrono::milliseconds(20 - ms % 100));
  if (rank == 1 && ms % 4000 < 1000) std::this_thread::sleep_for(std::chrono::microseconds(300));
}

Options options_of(const Arguments& arguments) {
  Options options = testing::memory_options(kBatch);
  options.run.epochs = kMostEpochs;
  options.run.steps = static_cast<std::int64_t>(arguments.steps);
  options.queue.capacity = 16;
  options.queue.pool = 8;
  options.workers.io = 1;
  options.workers.decode = 1;
  options.policy.name = "adaptive";
  options.policy.watchdog_s = 120;
  options.telemetry.dir = (arguments.folder / "run").string();
  options.telemetry.max_bytes = arguments.max_bytes;
  options.telemetry.interval_s = arguments.interval_s;
  options.telemetry.prometheus = (arguments.folder / "figures.prom").string();
  return options;
}

class Job {
 public:
  Job(const Arguments& arguments, const MpiSession& mpi)
      : arguments_(arguments),
        mpi_(mpi),
        tallies_(kMostEpochs),
        readings_(arguments.folder / ("readings." + std::to_string(mpi.rank())), std::ios::app),
        log_(arguments.folder / ("log." + std::to_string(mpi.rank())), std::ios::app) {}

  void run() {
    Feeder feeder(options_of(arguments_), mpi_.world(),
                  {.dataset = std::make_shared<MemoryDataset>(
                       kSamples, [rank = mpi_.rank()](std::uint64_t) { wait_for_storage(rank); }),
                   .resume = state(),
                   .log = logger()});
    while (feeder.next_epoch()) {
      serve_epoch(feeder);
      if (feeder.epochs_completed() % kEpochsOfEvaluation == 0) evaluate(feeder);
    }
    feeder.save(state());
    feeder.finish_saves();
    const std::uint64_t steps = feeder.steps();
    const std::uint64_t epochs = feeder.epochs_completed();
    feeder.close();
    const Summary summary = feeder.summary();
    write_tally(steps, epochs, &summary);
    check_last_state(steps, epochs);
  }

 private:
  [[nodiscard]] std::string state() const { return (arguments_.folder / "feed.state").string(); }

  Logger logger() {
    return [this](LogLevel level, std::string_view text) { log_ << to_string(level) << ": " << text << std::endl; };
  }

  void serve_epoch(Feeder& feeder) {
    while (auto batch = feeder.next()) {
      count(*batch);
      batch.reset();
      const std::uint64_t step = feeder.steps();
      if (step % (arguments_.steps / kReadings) == 0) read(step);
      if (step % kStepsBetweenSaves == 0) save(feeder);
      if (step == arguments_.kill_after) save_and_be_killed(feeder);
    }
  }

  void count(const Lease& batch) {
    ++served_;
    if (!batch.is_fresh()) return;
    ++fresh_;
    Tally& tally = tallies_[batch.epoch()];
    tally.count += batch.size();
    for (const std::uint64_t id : batch.ids()) tally.sum += mixed(id);
  }

  void save(Feeder& feeder) {
    feeder.save(state());
    if (++saves_ % kSavesBetweenWaits == 0) feeder.finish_saves();
  }

  // The state on disk is that of this step, and what is counted here ends with it; the job is killed some steps later.
  void save_and_be_killed(Feeder& feeder) {
    feeder.save(state());
    feeder.finish_saves();
    write_tally(feeder.steps(), feeder.epochs_completed(), nullptr);
    for (std::uint64_t step = 0; step < kStepsBetweenSaves / 2 && feeder.next();) ++step;
    std::raise(SIGKILL);
  }

  void evaluate(const Feeder& feeder) {
    Options options = feeder.options();
    options.run = {.epochs = 1, .steps = 0, .eval = true};
    options.telemetry.dir.clear();
    options.telemetry.prometheus.clear();
    Feeder held_out(options, mpi_.world(), {.dataset = held_out_, .log = logger()});
    while (const auto batch = held_out.next()) evaluated_ += batch->size();
    ++evaluations_;
  }

  void read(std::uint64_t step) {
    const Reading now = read_now(arguments_.folder / "run");
    readings_ << nlohmann::json{{"step", step},
                                {"resident", now.resident_bytes},
                                {"heap", now.resident_heap},
                                {"anonymous", now.resident_anonymous},
                                {"shared", now.resident_shared},
                                {"files", now.resident_files},
                                {"proportional", now.proportional_bytes},
                                {"allocated", now.allocated_bytes},
                                {"descriptors", now.descriptors},
                                {"threads", now.threads},
                                {"bounded", now.bounded_bytes},
                                {"folder", now.folder_bytes}}
              << std::endl;
  }

  void write_tally(std::uint64_t steps, std::uint64_t epochs, const Summary* summary) {
    nlohmann::json json{{"steps", steps},          {"epochs", epochs},    {"served", served_},
                        {"fresh", fresh_},         {"saves", saves_},     {"evaluations", evaluations_},
                        {"evaluated", evaluated_}, {"samples", kSamples}, {"held_out", kHeldOut}};
    std::uint64_t once = 0;
    for (std::uint64_t id = 0; id < kSamples; ++id) once += mixed(id);
    json["sum_of_each_once"] = once;
    for (std::uint64_t epoch = 0; epoch <= epochs + 1; ++epoch) {
      json["tallies"].push_back({tallies_[epoch].count, tallies_[epoch].sum});
    }
    if (summary != nullptr) json["summary"] = nlohmann::json::parse(to_json(*summary));
    std::ofstream(arguments_.folder / ("tally." + std::to_string(mpi_.rank())), std::ios::app) << json << std::endl;
  }

  void check_last_state(std::uint64_t steps, std::uint64_t epochs) {
    Options options = options_of(arguments_);
    options.telemetry.dir.clear();
    options.telemetry.prometheus.clear();
    Feeder again(options, mpi_.world(),
                 {.dataset = std::make_shared<MemoryDataset>(kSamples), .resume = state(), .log = logger()});
    if (again.steps() == steps && again.epochs_completed() == epochs && !again.next_epoch()) return;
    throw Error("the last state is of step " + std::to_string(again.steps()) + ", and " + std::to_string(steps) +
                " were served");
  }

  const Arguments& arguments_;
  const MpiSession& mpi_;
  std::vector<Tally> tallies_;  // by epoch; all of its memory is taken before the first reading
  std::ofstream readings_;
  std::ofstream log_;
  std::shared_ptr<const Dataset> held_out_ = std::make_shared<MemoryDataset>(kHeldOut);
  std::uint64_t served_ = 0;
  std::uint64_t fresh_ = 0;
  std::uint64_t saves_ = 0;
  std::uint64_t evaluations_ = 0;
  std::uint64_t evaluated_ = 0;
};

}  // namespace
}  // namespace forebay::endurance

int main(int argc, char** argv) {
  using namespace forebay::endurance;
  if (argc != 6) {
    std::fprintf(stderr, "usage: endurance_job FOLDER STEPS KILL_AFTER MAX_BYTES INTERVAL_S   (by endurance/run)\n");
    return 2;
  }
  try {
    const Arguments arguments{.folder = argv[1],
                              .steps = std::strtoull(argv[2], nullptr, 10),
                              .kill_after = std::strtoull(argv[3], nullptr, 10),
                              .max_bytes = std::atoll(argv[4]),
                              .interval_s = std::atof(argv[5])};
    const forebay::MpiSession mpi(argc, argv);
    Job(arguments, mpi).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "endurance_job: %s\n", error.what());
    return 1;
  }
}

// What a rank costs as ranks grow; run under mpirun, rank 0 prints one JSON object with the figures of all ranks.
//   bench_ranks start LIST INDEX    the ranks get the index of the list: INDEX names a file that all see, or is ""
//   bench_ranks steps N             a feeder on samples in memory, N steps of 1 ms that end together
//   bench_ranks coordination FLOATS STEPS ROUNDS    what agreeing costs beside a trainer's all-reduce of its gradients:
//       for each round the time per step of gradients (an all-reduce of FLOATS floats, in place), census (what Forebay
//       reports and is told at a step, nothing else) and both together. A round has STEPS steps of each, one kind after
//       the other; every second round goes backwards.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <forebay/order.hpp>

#include "job/agreed_start.hpp"
#include "measure.hpp"
#include "memory_dataset.hpp"
#include "ranks/census.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::percentile;
using forebay::bench::process_memory;
using forebay::bench::ProcessMemory;

constexpr std::uint64_t kLookUps = 100'000;
constexpr auto kStep = std::chrono::milliseconds(1);
constexpr std::int64_t kWarm = 50;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

using Fields = std::vector<std::pair<const char*, double>>;

void append_memory(Fields& fields, const ProcessMemory& before) {
  const ProcessMemory now = process_memory();
  fields.insert(fields.end(), {{"own_mb", now.own - before.own},
                               {"mapped_mb", now.mapped - before.mapped},
                               {"shared_mb", now.shared - before.shared},
                               {"portion_mb", now.portion - before.portion}});
}

// Everything is measured before anybody leaves: memory that ranks share is divided among those that are there.
std::string to_json(const Fields& fields) {
  std::string text = "{";
  char field[64];
  for (const auto& [name, value] : fields) {
    std::snprintf(field, sizeof field, "%s\"%s\": %.6g", text.size() > 1 ? ", " : "", name, value);
    text += field;
  }
  return text + "}";
}

Fields start(forebay::Communicator& communicator, const std::string& list, const std::string& index) {
  forebay::Options options;
  options.dataset.format = "filelist";
  options.dataset.path = list;
  options.dataset.index = index;
  (void)communicator.all_gather("");
  const ProcessMemory before = process_memory();
  const auto begun = Clock::now();
  const auto dataset = forebay::job::share_dataset(options.dataset, communicator);
  forebay::job::require_same_run(options, *dataset, communicator);
  Fields fields{{"start_s", seconds_since(begun)}, {"samples", static_cast<double>(dataset->size())}};
  // As an epoch would: a part of the samples, at random.
  const forebay::Order order({.samples = dataset->size(), .batch_size = 1, .seed = 17 + communicator.rank()});
  for (std::uint64_t i = 0; i < kLookUps; ++i) {
    const std::uint64_t id = order.sample(0, i % dataset->size());
    if (dataset->name(id).empty() || dataset->sample(id).label < -1) throw std::runtime_error("no such sample");
  }
  (void)communicator.all_gather("");
  append_memory(fields, before);
  (void)communicator.all_gather("");
  return fields;
}

Fields steps(const forebay::MpiSession& mpi, std::int64_t count) {
  forebay::Options options = forebay::testing::memory_options(4);
  options.workers.io = 1;
  options.workers.decode = 1;
  options.policy.name = "greedy";  // never waits for a batch: what is left is its own work and the other ranks
  options.run.steps = count;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  const ProcessMemory before = process_memory();
  const auto begun = Clock::now();
  forebay::Feeder feeder(options, mpi.world(), std::move(parts));
  Fields fields{{"construct_s", seconds_since(begun)}};
  std::vector<double> ns;
  while (true) {
    const auto asked = Clock::now();
    const auto batch = feeder.next();
    const double taken = 1e9 * seconds_since(asked);
    if (!batch) break;
    if (static_cast<std::int64_t>(batch->step()) >= kWarm) ns.push_back(taken);
    std::this_thread::sleep_for(kStep);
    char gradient = 0;
    MPI_Allreduce(MPI_IN_PLACE, &gradient, 1, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
  }
  const forebay::Summary summary = feeder.summary();
  fields.insert(fields.end(), {{"next_p50_ns", percentile(ns, 0.5)},
                               {"next_p99_ns", percentile(ns, 0.99)},
                               {"census_waits", static_cast<double>(summary.census_waits)},
                               {"census_wait_ns", 1e9 * summary.census_wait_s / static_cast<double>(summary.steps)}});
  append_memory(fields, before);
  feeder.close();
  return fields;
}

enum Kind : std::uint8_t { gradients, census, both };
constexpr std::array<const char*, 3> kNames{"gradients", "census", "both"};
constexpr std::size_t kLag = 2;

class Trainer {
 public:
  Trainer(forebay::Communicator& communicator, std::size_t floats)
      : census_(communicator, kLag), gradients_(floats, 0.0F) {}

  // Seconds per step, of the slowest rank.
  double steps(Kind kind, std::int64_t count) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begun = Clock::now();
    for (std::int64_t step = 0; step < count; ++step) {
      if (kind != gradients) {
        census_.post({.served = step});
        (void)census_.due();
      }
      if (kind == census) continue;
      MPI_Allreduce(MPI_IN_PLACE, gradients_.data(), static_cast<int>(gradients_.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    }
    double taken = seconds_since(begun) / static_cast<double>(count);
    MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return taken;
  }
  // What is still under way.
  void end() {
    while (census_.rest() != nullptr) continue;
  }

 private:
  forebay::ranks::Census census_;
  std::vector<float> gradients_;
};

void coordination(const forebay::MpiSession& mpi, std::size_t floats, std::int64_t count, int rounds) {
  const auto communicator = mpi.world().duplicate();
  std::array<std::string, 3> found;
  {
    Trainer trainer(*communicator, floats);
    for (const Kind kind : {gradients, census}) (void)trainer.steps(kind, 1);
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < 3; ++i) {
        const auto kind = static_cast<Kind>(round % 2 == 0 ? i : 2 - i);
        found[kind] += (found[kind].empty() ? "" : ", ") + std::to_string(1e6 * trainer.steps(kind, count));
      }
    }
    trainer.end();
  }
  (void)communicator->close(60);
  if (mpi.rank() != 0) return;
  std::printf("{\"ranks\": %d, \"floats\": %zu", mpi.size(), floats);
  for (const Kind kind : {gradients, census, both}) std::printf(", \"%s_us\": [%s]", kNames[kind], found[kind].c_str());
  std::printf("}\n");
}

void run(const forebay::MpiSession& mpi, const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "coordination") {
    return coordination(mpi, std::stoull(arguments[1]), std::stoll(arguments[2]), std::stoi(arguments[3]));
  }
  const auto communicator = mpi.world().duplicate();
  Fields fields;
  if (arguments.size() == 3 && arguments[0] == "start") {
    fields = start(*communicator, arguments[1], arguments[2]);
  } else if (arguments.size() == 2 && arguments[0] == "steps") {
    fields = steps(mpi, std::stoll(arguments[1]));
  } else {
    throw std::runtime_error("usage: bench_ranks start LIST INDEX | steps N | coordination FLOATS STEPS ROUNDS");
  }
  std::string all;
  for (const std::string& each : communicator->all_gather(to_json(fields))) all += (all.empty() ? "" : ", ") + each;
  if (communicator->rank() == 0) std::printf("[%s]\n", all.c_str());
  (void)communicator->close(60);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const forebay::MpiSession mpi(argc, argv);
    run(mpi, {argv + 1, argv + argc});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

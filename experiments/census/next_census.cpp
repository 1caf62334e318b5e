// One rank's next() beside an emulated trainer, for measure.py: what the census adds, and how often it was complete.
//   bench_next_census DIR STEPS LAG solo|census none|allreduce sleep|spin
// Writes DIR/RANK/next_ns.json, the time of every next(), beside the telemetry of that rank. `solo`: the feeder knows
// of no other rank; without an all-reduce of the trainer the process then does not even start MPI.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <forebay/random.hpp>

#include "memory_dataset.hpp"

namespace {

using Clock = std::chrono::steady_clock;

// A step sleeps between these, so that ranks drift apart and four of them fit two cores; or it spins for the last.
constexpr double kShortestStep_s = 1e-3;
constexpr double kLongestStep_s = 2e-3;
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr std::size_t kGradients = 1024;  // floats

struct Arguments {
  std::filesystem::path dir;
  std::int64_t steps = 0;
  std::int64_t lag = 0;
  bool census = false;
  bool allreduce = false;
  bool spin = false;
};

forebay::Options options_of(const Arguments& arguments, const std::filesystem::path& dir) {
  forebay::Options options = forebay::testing::memory_options(4);
  options.workers.io = 1;
  options.workers.decode = 1;
  // Never waits for a batch: what is left inside next() is its own work and the other ranks.
  options.policy.name = "greedy";
  options.run.steps = arguments.steps;
  options.mpi.lag = arguments.lag;
  options.telemetry.dir = dir.string();
  return options;
}

// mpirun's word for it: a process that does not start MPI has no other.
int rank_of_process() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}

void compute(bool spin, forebay::Random& random) {
  if (!spin) {
    std::this_thread::sleep_for(std::chrono::duration<double>(random.uniform(kShortestStep_s, kLongestStep_s)));
    return;
  }
  const auto end = Clock::now() + kSpin;
  while (Clock::now() < end) continue;
}

std::vector<double> train(forebay::Feeder& feeder, const Arguments& arguments, int rank) {
  std::vector<double> next_ns;
  next_ns.reserve(static_cast<std::size_t>(arguments.steps));
  forebay::Random random(forebay::key64(7, static_cast<std::uint64_t>(rank)));
  std::array<float, kGradients> gradients{};
  for (;;) {
    const auto before = Clock::now();
    const auto batch = feeder.next();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - before).count();
    if (!batch) return next_ns;
    next_ns.push_back(ns);
    compute(arguments.spin, random);
    if (arguments.allreduce)
      MPI_Allreduce(MPI_IN_PLACE, gradients.data(), static_cast<int>(kGradients), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

void write(const std::filesystem::path& file, const std::vector<double>& next_ns) {
  std::ofstream out(file);
  for (std::size_t i = 0; i < next_ns.size(); ++i) out << (i == 0 ? "[" : ",") << static_cast<std::int64_t>(next_ns[i]);
  out << "]\n";
}

void run(const Arguments& arguments, const forebay::MpiSession* mpi) {
  const int rank = rank_of_process();
  const std::filesystem::path dir = arguments.dir / std::to_string(rank);
  std::filesystem::create_directories(dir);
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  const forebay::Options options = options_of(arguments, dir);
  forebay::Feeder feeder = arguments.census ? forebay::Feeder(options, mpi->world(), std::move(parts))
                                            : forebay::Feeder(options, *forebay::solo_communicator(), std::move(parts));
  const std::vector<double> next_ns = train(feeder, arguments, rank);
  feeder.close();
  write(dir / "next_ns.json", next_ns);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs("usage: bench_next_census DIR STEPS LAG solo|census none|allreduce sleep|spin\n", stderr);
    return 2;
  }
  const Arguments arguments{.dir = argv[1],
                            .steps = std::atoll(argv[2]),
                            .lag = std::atoll(argv[3]),
                            .census = std::string_view(argv[4]) == "census",
                            .allreduce = std::string_view(argv[5]) == "allreduce",
                            .spin = std::string_view(argv[6]) == "spin"};
  try {
    std::optional<forebay::MpiSession> mpi;
    if (arguments.census || arguments.allreduce) mpi.emplace(argc, argv);
    run(arguments, mpi ? &*mpi : nullptr);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

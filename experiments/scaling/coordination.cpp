// What agreeing costs beside a trainer's all-reduce of its gradients, on the same ranks. Run under mpirun; rank 0
// prints one JSON object: for each round the time per step of
//   gradients    an all-reduce of FLOATS floats, in place
//   census       what Forebay reports and is told at a step, and nothing else in the step
//   both         the two together, as in a run
//   bench_coordination FLOATS STEPS ROUNDS
// A round has STEPS steps of each, one kind after the other; every second round goes backwards.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/mpi.hpp>

#include "ranks/census.hpp"

namespace {

using Clock = std::chrono::steady_clock;
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
    double taken = std::chrono::duration<double>(Clock::now() - begun).count() / static_cast<double>(count);
    MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return taken;
  }
  // What is still under way.
  void end() {
    while (census_.rest() != nullptr) continue;
  }

 private:
  forebay::Census census_;
  std::vector<float> gradients_;
};

void run(const forebay::MpiSession& mpi, std::size_t floats, std::int64_t count, int rounds) {
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

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("usage: bench_coordination FLOATS STEPS ROUNDS");
    const forebay::MpiSession mpi(argc, argv);
    run(mpi, std::stoull(argv[1]), std::stoll(argv[2]), std::stoi(argv[3]));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

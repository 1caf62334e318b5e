// One rank of a job on several hosts, and the audit of what all ranks saw. matrix.py starts it.
//   hosts_rank data KEY=VALUE...    writes the data set of one host
//   hosts_rank rank KEY=VALUE...    under mpirun: a part of the job
//   hosts_rank audit KEY=VALUE...   whether each sample was served once
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <forebay/order.hpp>

#include "every_container.hpp"
#include "job.hpp"
#include "once_job.hpp"

namespace forebay::experiments {
namespace {

using testing::OnceCase;

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

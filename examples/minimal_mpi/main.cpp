// The smallest MPI program fed by Forebay. In each step a rank sums the pixels of its batch, and all ranks add up their
// sums where a trainer would average its gradients. After each epoch it prints what a trainer would evaluate.
//
//   mpirun -n 2 --bind-to none minimal_mpi feed.toml [section.key=value ...]

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

namespace {

// What an epoch adds up to. Doubles throughout, so that one MPI_Allreduce of a plain array sums all of it.
struct Totals {
  double samples = 0;
  double fresh = 0;
  double labelled = 0;
  double pixels = 0;
};
static_assert(sizeof(Totals) == 4 * sizeof(double) && std::is_standard_layout_v<Totals>);

template <typename Pixel>
double sum_of(const forebay::TensorView& images) {
  double sum = 0;
  for (std::size_t i = 0; i < images.elements(); ++i) sum += static_cast<double>(images.as<Pixel>()[i]);
  return sum;
}

Totals totals_of(const forebay::Lease& batch) {
  const auto images = batch.images();
  Totals totals;
  totals.samples = static_cast<double>(batch.size());
  totals.fresh = batch.is_fresh() ? totals.samples : 0;
  for (const auto label : batch.labels()) totals.labelled += label >= 0 ? totals.samples / batch.rows() : 0;
  totals.pixels = images.dtype == forebay::DType::uint8 ? sum_of<unsigned char>(images) : sum_of<float>(images);
  return totals;
}

void add(Totals& sum, const Totals& more) {
  sum.samples += more.samples;
  sum.fresh += more.fresh;
  sum.labelled += more.labelled;
  sum.pixels += more.pixels;
}

void print_epoch(std::uint64_t epoch, const Totals& totals, double values_per_sample) {
  std::printf("epoch %llu: %.0f samples served, %.0f fresh, %.0f labelled, mean value %.6f\n",
              static_cast<unsigned long long>(epoch), totals.samples, totals.fresh, totals.labelled,
              totals.samples > 0 ? totals.pixels / (totals.samples * values_per_sample) : 0);
  std::fflush(stdout);
}

void run(const forebay::MpiSession& mpi, const forebay::Options& options) {
  forebay::Feeder feeder(options, mpi.world());  // 1: make it; it duplicates the communicator
  if (options.transform.dtype != forebay::DType::float32 && options.transform.dtype != forebay::DType::uint8) {
    throw forebay::ConfigError("minimal_mpi adds up float32 and uint8 only: set transform.dtype to one of them");
  }
  if (mpi.rank() == 0) std::printf("%s\n", feeder.describe().c_str());

  const auto values = 3.0 * static_cast<double>(options.transform.size[0] * options.transform.size[1]);
  while (feeder.next_epoch()) {  // or one loop of next() alone, where nothing happens between epochs
    const auto number = feeder.epochs_completed() + 1;
    Totals epoch;
    while (auto batch = feeder.next()) {  // 2: ask for the step's batch; all ranks get the same number of them
      Totals step = totals_of(*batch);    // 3: use it; the lease ends with the scope
      MPI_Allreduce(MPI_IN_PLACE, &step, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      add(epoch, step);
    }
    if (mpi.rank() == 0) print_epoch(number, epoch, values);
  }

  feeder.close();
  const auto summary = feeder.summary();
  std::printf("rank %d: %llu steps, %.1f %% of them fresh, in %.2f s, %.1f %% of it stalled\n", mpi.rank(),
              static_cast<unsigned long long>(summary.steps), 100 * summary.fresh_fraction, summary.wall_s,
              summary.wall_s > 0 ? 100 * summary.stall_s / summary.wall_s : 0);
}

}  // namespace

int main(int argc, char** argv) {
  forebay::MpiSession mpi(argc, argv);  // or: forebay::make_communicator(your MPI_Comm)
  if (argc < 2) {
    if (mpi.rank() == 0) std::fprintf(stderr, "usage: %s CONFIG [section.key=value ...]\n", argv[0]);
    return 2;
  }
  try {
    auto options = forebay::load_options(argv[1], mpi.world(), std::vector<std::string>(argv + 2, argv + argc));
    options.device = "host";  // it adds the pixels up on the processor, whatever GPU there is
    run(mpi, options);
  } catch (const forebay::Error& error) {
    // Forebay throws at the same step on all ranks, so they may leave together. Any other exception is this rank's
    // own: it must leave the session's scope, which ends the job.
    if (mpi.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return dynamic_cast<const forebay::ConfigError*>(&error) != nullptr ? 2 : 1;
  }
  return 0;
}

#include <forebay/error.hpp>

#include "base/launch.hpp"
#include "job.hpp"

namespace forebay::cli {

std::unique_ptr<Job> Job::start(int& /*argc*/, char**& /*argv*/) {
  if (const auto launch = launched_with_others()) {
    throw ConfigError(
        "this forebay was built without MPI and cannot be one of " + launch->processes + " processes of a job (" +
        launch->variable +
        "): each would serve the whole dataset and write the same files. Build it with -DFOREBAY_MPI=ON, "
        "or start it without mpirun, mpiexec or srun. If each process is to be a job of its own, start it "
        "through env -u " +
        launch->variable);
  }
  return std::make_unique<SoloJob>();
}

}  // namespace forebay::cli

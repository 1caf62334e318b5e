#include <chrono>
#include <thread>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/mpi.hpp>

#include "job.hpp"

namespace forebay::cli {
namespace {

// The job in a build with MPI; without it, job_solo.cpp is compiled instead. all_reduce() stands
// for that of a trainer's gradients.
class MpiJob final : public Job {
 public:
  MpiJob(int& argc, char**& argv) : session_(argc, argv) {}

  [[nodiscard]] const Communicator& world() const noexcept override { return session_.world(); }

  void all_reduce(std::size_t bytes) override {
    gradients_.resize(bytes / sizeof(float));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, gradients_.data(), static_cast<int>(gradients_.size()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      // Sleeps instead of spinning, which would take a core from the decoders: a real accelerator
      // computes elsewhere.
      if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);  // already complete; this tells MPI checkers so
  }

 private:
  MpiSession session_;
  std::vector<float> gradients_;
};

}  // namespace

// MPI is not started for a single process, so that the program also runs where MPI cannot start.
std::unique_ptr<Job> Job::start(int& argc, char**& argv) {
  if (!launched_by_mpi()) return std::make_unique<SoloJob>();
  return std::make_unique<MpiJob>(argc, argv);
}

}  // namespace forebay::cli

#pragma once

#include <cstddef>
#include <memory>

#include <forebay/communicator.hpp>

namespace forebay::cli {

// The job that runs this command: an MPI job, or a single process. A command creates it first and
// destroys it last; only the main thread uses it.
class Job {
 public:
  // Starts MPI if an MPI launcher started the process and this build has MPI.
  [[nodiscard]] static std::unique_ptr<Job> start(int& argc, char**& argv);
  virtual ~Job() = default;

  [[nodiscard]] virtual const Communicator& world() const noexcept = 0;
  // Collective: an all-reduce of this many bytes, as a trainer makes for its gradients. Waits
  // without occupying a core.
  virtual void all_reduce(std::size_t bytes) = 0;
};

// One rank without MPI.
class SoloJob final : public Job {
 public:
  [[nodiscard]] const Communicator& world() const noexcept override { return *world_; }
  void all_reduce(std::size_t /*bytes*/) override {}

 private:
  std::unique_ptr<Communicator> world_ = solo_communicator();
};

}  // namespace forebay::cli

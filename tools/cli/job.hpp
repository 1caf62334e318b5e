#pragma once

#include <cstddef>
#include <memory>

#include <forebay/communicator.hpp>

namespace forebay::cli {

// The ranks that run this command: those of an MPI job, or one. Created first and destroyed last in a command; used by
// the main thread only.
class Job {
 public:
  // Starts MPI if the process was launched by it (and this build has it).
  [[nodiscard]] static std::unique_ptr<Job> start(int& argc, char**& argv);
  virtual ~Job() = default;

  [[nodiscard]] virtual const Communicator& world() const noexcept = 0;
  // Collective: what a trainer does with its gradients, an all-reduce of this many bytes. Waits without occupying a
  // core.
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

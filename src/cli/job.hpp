#pragma once

#include <cstddef>
#include <memory>

#include <forebay/communicator.hpp>

namespace forebay {

// The ranks that run this command: those of mpirun, or one. Made first and destroyed last in a command; used by the
// main thread only.
class Job {
 public:
  // Starts MPI when the process was launched by it (and this build has it).
  [[nodiscard]] static std::unique_ptr<Job> start(int& argc, char**& argv);
  virtual ~Job() = default;

  [[nodiscard]] virtual const Communicator& world() const noexcept = 0;
  // Collective: what a trainer does with its gradients, an all-reduce of this many bytes. Waits without taking a core.
  virtual void all_reduce(std::size_t bytes) = 0;
};

// One rank without MPI.
[[nodiscard]] std::unique_ptr<Job> solo_job();

}  // namespace forebay

#pragma once

#include <memory>
#include <string>

#include <mpi.h>

#include <forebay/communicator.hpp>

// The only header with MPI in it. Link forebay::mpi.
namespace forebay {

// A communicator over the ranks of `comm`. It uses `comm` only to duplicate it (a collective call), so Forebay's
// traffic never meets the trainer's. Never raises the thread level: MPI must be initialised with
// MPI_THREAD_FUNNELED or more; throws Error otherwise.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(MPI_Comm comm);

// True when this process was started by mpirun, mpiexec or an srun of several tasks, by what they leave in the
// environment; a process that was not need not start MPI at all. Does not call MPI.
[[nodiscard]] bool launched_by_mpi() noexcept;

// Initialises MPI (MPI_THREAD_FUNNELED) if nobody has, and finalises it if it did. A session whose scope is left by
// an exception, and an exception that nobody catches, end in MPI_Abort(1) with the cause printed first: one rank
// that leaves alone would hang the others in their next collective call.
// So does a rank that left its loop while the others went on, and wait for it in calls of their own for
// policy.watchdog_s; and the session of a rank that ended with an error that names another one, which has not come
// since, ends the job instead of waiting for that rank in MPI_Finalize. Construct it first in main. Move is not
// offered: MPI is initialised once per process. A failure noted with note_failure() on a duplicate of world() is
// printed as the cause.
class MpiSession {
 public:
  // Throws Error when MPI was initialised with less than MPI_THREAD_FUNNELED, or was finalised already, or is alone in
  // its MPI_COMM_WORLD although a launcher started several processes.
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // The ranks of MPI_COMM_WORLD, as a duplicate that belongs to the session.
  [[nodiscard]] const Communicator& world() const noexcept;
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

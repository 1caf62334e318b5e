#pragma once

#include <memory>
#include <string>

#include <mpi.h>

#include <forebay/communicator.hpp>

// The only header that includes MPI. Link forebay::mpi.
namespace forebay {

// A communicator over the ranks of `comm`. It only duplicates `comm` (a collective call), so Forebay's traffic never
// mixes with the trainer's. MPI must be initialised with MPI_THREAD_FUNNELED or higher; otherwise throws Error.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(MPI_Comm comm);

// Whether mpirun, mpiexec or an srun of several tasks started this process, according to its environment; other
// processes need not initialise MPI at all. Does not call MPI.
[[nodiscard]] bool launched_by_mpi() noexcept;

// Initialises MPI (MPI_THREAD_FUNNELED) if that has not been done yet, in which case it also finalises it. An exception
// that leaves the session's scope, or is not caught, prints the cause and ends in MPI_Abort(1): a rank that left alone
// would hang the others in their next collective call. The session also ends the job if a rank has left its loop while
// the others have waited for it in their own MPI calls for policy.watchdog_s; and if this rank ended with an error that
// names a missing rank, it aborts instead of waiting for that rank in MPI_Finalize. Construct it first in main. It
// cannot be moved: MPI is initialised once per process. A failure noted with note_failure() on a duplicate of world()
// is printed as the cause.
class MpiSession {
 public:
  // Throws Error if MPI was initialised with less than MPI_THREAD_FUNNELED or has been finalised, or if this process is
  // alone in MPI_COMM_WORLD although a launcher started several.
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

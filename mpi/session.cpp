// MpiSession holds MPI for the lifetime of main(). It initialises MPI unless the program has done
// so. Its destructor finalises MPI, or, if an exception leaves its scope, aborts the job with the
// cause, because the other ranks would wait for this one for ever. The terminate handler does the
// same. Nothing here knows about feeders; they note the cause of a failure in the FailureNote.

#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

#include "base/launch.hpp"
#include "communicator.hpp"
#include "mpi_error.hpp"

namespace forebay {
namespace {

// For the last message of a process: must not fail if MPI is gone.
std::string with_rank(const std::string& text) {
  if (!mpi::mpi_is_usable()) return text;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return "rank " + std::to_string(rank) + ": " + text;
}

std::string describe_current_exception() noexcept {
  const std::exception_ptr current = std::current_exception();
  if (!current) return "std::terminate was called";
  try {
    std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return std::string("uncaught exception: ") + error.what();
  } catch (...) {
    return "uncaught exception of unknown type";
  }
}

[[noreturn]] void abort_on_terminate() noexcept { mpi::abort_job(with_rank(describe_current_exception())); }

// Throws if a launcher started several processes but MPI sees only one. That happens if the
// launcher belongs to a different MPI than the one this program is linked with: each process is
// then alone in its MPI_COMM_WORLD.
void require_all_ranks(bool initialised_here) {
  const auto launch = launched_with_others();
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!launch || size > 1) return;
  if (initialised_here) MPI_Finalize();
  throw Error("this process was started as one of " + launch->processes + " (" + launch->variable +
              "), but MPI knows of no other: start the job with the mpirun of the MPI that the program is linked with "
              "(under Slurm: srun --mpi=pmix). If each process is to be a job of its own, start it through env -u " +
              launch->variable);
}

// Returns whether this call initialised MPI.
bool initialise(int& argc, char**& argv) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0) throw Error("MPI was finalised already and cannot be started again in this process");
  if (initialized == 0) {
    int provided = MPI_THREAD_SINGLE;
    mpi::check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  }
  mpi::require_thread_level();
  require_all_ranks(initialized == 0);
  return initialized == 0;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

}  // namespace

struct MpiSession::Impl {
  bool initialised_here;
  int exceptions_at_start = std::uncaught_exceptions();
  std::shared_ptr<mpi::FailureNote> note = std::make_shared<mpi::FailureNote>();
  std::unique_ptr<mpi::MpiCommunicator> world = std::make_unique<mpi::MpiCommunicator>(MPI_COMM_WORLD, note);
  std::terminate_handler previous = std::set_terminate(abort_on_terminate);
};

MpiSession::MpiSession(int& argc, char**& argv) : impl_(new Impl{.initialised_here = initialise(argc, argv)}) {
  impl_->note->set_session(true);
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > impl_->exceptions_at_start) {
    // An exception in flight cannot be inspected here. A noted cause contains its rank.
    const std::string noted = impl_->note->get();
    mpi::abort_job(noted.empty() ? with_rank("an exception is leaving the scope of the MpiSession") : noted);
  }
  if (const std::string cause = impl_->note->abort_cause(); !cause.empty()) mpi::abort_job(cause);
  impl_->note->set_session(false);
  std::set_terminate(impl_->previous);
  impl_->world.reset();
  if (impl_->initialised_here && mpi::mpi_is_usable()) MPI_Finalize();
}

const Communicator& MpiSession::world() const noexcept { return *impl_->world; }
int MpiSession::rank() const noexcept { return static_cast<int>(impl_->world->rank()); }
int MpiSession::size() const noexcept { return static_cast<int>(impl_->world->size()); }

// Looks at variables that launchers set. Asking MPI would need MPI_Init, which a program without a
// launcher should not pay for.
bool launched_by_mpi() noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"})
    if (is_set(name)) return true;
  // A batch script has SLURM_PROCID as well; only srun tells how many tasks its step has.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return is_set("SLURM_PROCID") && tasks != nullptr && std::string_view(tasks) != "1";
}

}  // namespace forebay

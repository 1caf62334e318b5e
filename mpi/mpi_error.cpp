// Turns MPI's error codes into exceptions, aborts the job, and checks the thread level. abort_job()
// may be called while another thread is inside stdio, or while the process is dying. So it writes
// with write(2), never waits for a lock, and has a second way out in case MPI_Abort itself hangs
// (docs/decisions/0032-endings-are-bounded.md).

#include "mpi_error.hpp"

#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "base/thread.hpp"

namespace forebay::mpi {
namespace {

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "an unknown level";
  }
}

// Bypasses stdio: a thread inside fread() or fgets() holds its stream's lock, and flushing all
// streams would wait for it.
void say(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Shows what the program printed last, unless that would mean waiting for a lock.
void flush_if_free(std::FILE* stream) noexcept {
  if (::ftrylockfile(stream) != 0) return;
  ::fflush_unlocked(stream);
  ::funlockfile(stream);
}

// See decision 32; MPI_Abort of a healthy MPI takes far less.
constexpr std::chrono::seconds kAbortPatience{5};

// Ends the process after kAbortPatience: MPI_Abort runs code of other libraries, which may hang on
// such locks.
void leave_soon() noexcept {
  try {
    start_thread("forebay-end", [] {
      std::this_thread::sleep_for(kAbortPatience);
      ::_exit(1);
    }).detach();
  } catch (const std::exception&) {  // if no thread can be started, the signal's default action ends the process
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(static_cast<unsigned>(kAbortPatience.count()));
  }
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string(call) + " failed: " + std::string(text.data(), static_cast<std::size_t>(length)));
}

bool mpi_is_usable() noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

void abort_job(const std::string& cause) noexcept {
  try {
    say("forebay: " + printable_lines(cause) + "\n");
  } catch (const std::bad_alloc&) {
    say("forebay: the job ends, and there is no memory to say why\n");
  }
  leave_soon();
  flush_if_free(stdout);
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// MPI_THREAD_FUNNELED is enough, because all calls come from one thread. At that level it must be
// the one that initialised MPI.
void require_thread_level() {
  if (!mpi_is_usable())
    throw Error("MPI is not running: construct forebay::MpiSession first in main, or call MPI_Init_thread");
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED)
    throw Error(std::string("MPI was initialised with ") + level_name(level) +
                ", but Forebay has threads beside the one that calls MPI: initialise with "
                "MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), or let forebay::MpiSession do it");
  int is_main = 0;
  check(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  if (level == MPI_THREAD_FUNNELED && is_main == 0)
    throw Error(
        "at MPI_THREAD_FUNNELED only the thread that initialised MPI may use a communicator: make it, and the "
        "feeder, on that thread, or initialise with MPI_THREAD_SERIALIZED");
}

}  // namespace forebay::mpi

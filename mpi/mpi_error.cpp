#include "mpi_error.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay {
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
    std::fprintf(stderr, "forebay: %s\n", printable_lines(cause).c_str());
  } catch (const std::bad_alloc&) {
    std::fputs("forebay: the job ends, and there is no memory to say why\n", stderr);
  }
  std::fflush(nullptr);
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

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

}  // namespace forebay

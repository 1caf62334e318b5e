#pragma once

#include <string>

#include <forebay/mpi.hpp>

namespace forebay::mpi {

// Throws Error with `call` and MPI's own explanation unless `code` is MPI_SUCCESS. For
// communicators whose error handler returns; others abort inside MPI.
void check(int code, const char* call);

// True between MPI_Init and MPI_Finalize. Any thread.
[[nodiscard]] bool mpi_is_usable() noexcept;

// Prints the cause, then ends all ranks with exit code 1. Any thread may call. At
// MPI_THREAD_FUNNELED a call from a worker breaks MPI's rules, but the process is lost anyway, and
// the other ranks must not be left waiting.
[[noreturn]] void abort_job(const std::string& cause) noexcept;

// Throws Error, which says what to call instead, unless MPI runs with MPI_THREAD_FUNNELED or more
// and, at exactly that level, the caller is the thread that initialised it.
void require_thread_level();

}  // namespace forebay::mpi

#pragma once

#include <forebay/communicator.hpp>

namespace forebay::testing {

// The ranks that mpirun started; for programs that run under it (tests/mpi_main.cpp).
[[nodiscard]] const Communicator& world();

}  // namespace forebay::testing

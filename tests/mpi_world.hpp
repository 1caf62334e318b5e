#pragma once

#include <forebay/communicator.hpp>

#include "test.hpp"

namespace forebay::testing {

// The ranks that mpirun started, in programs that run under it (tests/mpi_main.cpp).
[[nodiscard]] const Communicator& world();

// The texts of all ranks, by rank. Collective.
inline std::vector<std::string> gather_texts(const std::string& mine) {
  const auto communicator = world().duplicate();
  auto texts = communicator->all_gather(mine);
  CHECK(communicator->close(10));
  return texts;
}

}  // namespace forebay::testing

#pragma once

// Every test program that runs under mpirun includes this once: all ranks run all cases; rank 0 reports, and every
// rank on which something failed, each line with its rank in front. All ranks end with the worst exit code.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

#include <forebay/mpi.hpp>

namespace forebay::testing {

inline MpiSession*& session_of_program() {
  static MpiSession* session = nullptr;
  return session;
}

// The ranks that mpirun started.
inline const Communicator& world() { return session_of_program()->world(); }

}  // namespace forebay::testing

int main(int argc, char** argv) {
  forebay::MpiSession session(argc, argv);
  forebay::testing::session_of_program() = &session;
  std::ostringstream report;
  doctest::Context context(argc, argv);
  context.setCout(&report);
  context.setOption("no-colors", true);
  int code = context.run();

  if (session.rank() == 0 || code != 0) {
    std::istringstream lines(report.str());
    std::ostringstream prefixed;
    for (std::string line; std::getline(lines, line);) prefixed << "[rank " << session.rank() << "] " << line << '\n';
    std::cout << prefixed.str() << std::flush;
  }
  MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return code;
}

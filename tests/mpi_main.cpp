// main() of test programs that run under mpirun. All ranks run all cases. Rank 0 reports, and so
// does every rank with a failure, each line preceded by the rank. All ranks exit with the worst
// exit code.
#include <forebay/mpi.hpp>
#include <iostream>

#include <doctest/doctest.h>
#include "mpi_world.hpp"

namespace forebay::testing {
namespace {

const MpiSession* session_of_program = nullptr;  // NOLINT: doctest's cases have no other way to reach main()'s

}  // namespace

const Communicator& world() { return session_of_program->world(); }

}  // namespace forebay::testing

int main(int argc, char** argv) {
  const forebay::MpiSession session(argc, argv);
  forebay::testing::session_of_program = &session;
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

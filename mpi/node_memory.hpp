#pragma once

#include <cstddef>
#include <memory>

#include <forebay/mpi.hpp>

namespace forebay::mpi {

// Zeroed memory shared by the ranks of `comm` that run on one node. Collective over `comm`; every rank must ask for
// the same number of bytes. Each rank unmaps its own view, without any agreement. Throws Error on all ranks when
// any of them fails.
[[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(MPI_Comm comm, std::size_t bytes);

}  // namespace forebay::mpi

#ifndef FOREBAY_FOREBAY_MPI_H
#define FOREBAY_FOREBAY_MPI_H

// The ranks of an MPI job for <forebay/forebay.h>: link libforebay_c_mpi (forebay::c_mpi, pkg-config forebay-c-mpi),
// which uses the MPI that Forebay was built with.

#include <forebay/forebay.h>

// NOLINTBEGIN(modernize-*): it is C

#ifdef __cplusplus
extern "C" {
#endif

// Fills in a communicator over the ranks of an MPI communicator, for forebay_feeder_options::communicator.
//
// `handle` is its Fortran handle: MPI_Comm_c2f(comm) in C, comm.py2f() in mpi4py, the integer itself in Fortran. In C
// the type of an MPI_Comm differs between implementations; the Fortran handle is an integer in all of them, so that no
// header of MPI is needed here.
//
// Collective. `communicator`: its struct_size is set by the caller. It is the caller's, who ends it with
// communicator->destroy(communicator->context) after the feeders that use it and before MPI_Finalize().
// MPI must be initialised with MPI_THREAD_FUNNELED or more, and the thread that calls this also calls the feeder.
// Fails with FOREBAY_ERROR, for example where MPI is not initialised.
//
// Forebay never aborts the job here. A rank that leaves alone, by an error of its own, calls MPI_Abort(), or the others
// wait for it.
FOREBAY_API forebay_status forebay_mpi_communicator(int32_t handle, forebay_communicator* communicator,
                                                    forebay_error** error);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif

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
// `handle` is its Fortran handle: MPI_Comm_c2f(comm) in C, comm.py2f() in mpi4py, the integer itself in Fortran. MPI
// implementations define MPI_Comm as different C types, but the Fortran handle is always an integer, so no MPI header
// is needed here.
//
// Collective. The caller sets communicator->struct_size, owns the communicator, and destroys it with
// communicator->destroy(communicator->context) after the feeders that use it and before MPI_Finalize(). MPI must be
// initialised with MPI_THREAD_FUNNELED or higher, and the thread that calls this must also call the feeder. Fails with
// FOREBAY_ERROR, for example if MPI is not initialised.
//
// With this communicator Forebay never aborts the job. A rank that leaves alone, after an error of its own, must call
// MPI_Abort(), or the others keep waiting for it.
FOREBAY_API forebay_status forebay_mpi_communicator(int32_t handle, forebay_communicator* communicator,
                                                    forebay_error** error);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif

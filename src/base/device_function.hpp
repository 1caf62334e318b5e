#pragma once

// Marks functions that a CUDA compiler also compiles for the device; empty for any other compiler.
#ifdef __CUDACC__
#define FOREBAY_HOST_DEVICE __host__ __device__
#else
#define FOREBAY_HOST_DEVICE
#endif

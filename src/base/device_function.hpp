#pragma once

// Marks functions that a CUDA compiler makes for the device too; for any other compiler it is nothing.
#ifdef __CUDACC__
#define FOREBAY_HOST_DEVICE __host__ __device__
#else
#define FOREBAY_HOST_DEVICE
#endif

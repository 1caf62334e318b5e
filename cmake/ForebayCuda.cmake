# The CUDA backend: built where there is an nvcc, left out where there is none; everything else is the same.
# Sets FOREBAY_HAS_CUDA, and FOREBAY_CUDA_INCLUDE_DIR where the headers of the runtime are: the tests compile the backend
# against a fake runtime with those alone.
set(FOREBAY_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE FOREBAY_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FOREBAY_CUDA_ARCHITECTURES "$ENV{FOREBAY_CUDA_ARCHITECTURES}" CACHE STRING
    "GPUs to build kernels for; without -real, PTX for later ones too. Empty: all from Turing on that nvcc knows. By default what the environment says")

set(FOREBAY_HAS_CUDA FALSE)
if(FOREBAY_CUDA)  # AUTO is true
  find_program(FOREBAY_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(FOREBAY_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${FOREBAY_NVCC})
  endif()
  # nvcc's own default may be a GPU that it no longer knows. A driver compiles PTX at the first start on each
  # machine, which takes seconds. So there is code for each generation, and PTX only for what came after.
  set(architectures ${FOREBAY_CUDA_ARCHITECTURES})
  if(NOT architectures)
    set(architectures 75-real 80-real 90)
    set(nvcc ${FOREBAY_NVCC})
    if(CMAKE_CUDA_COMPILER)
      set(nvcc ${CMAKE_CUDA_COMPILER})
    endif()
    if(nvcc)
      execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
      if(known MATCHES "compute_120")
        list(APPEND architectures 100-real 120)
      endif()
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures})
  set(ENV{CUDAARCHS} "${architectures}")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # CMake 3.25 asks for C++20, which our C++ is in, without knowing how nvcc is told.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    set(FOREBAY_HAS_CUDA TRUE)
    message(STATUS "CUDA backend: built with nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, "
                   "runtime linked statically")
  elseif(FOREBAY_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA backend: left out, no working nvcc was found (in $PATH, $CUDA_HOME/bin, $CUDA_PATH/bin, "
                   "/usr/local/cuda/bin, or $CUDACXX)")
  else()
    message(FATAL_ERROR "FOREBAY_CUDA is ON, but no working nvcc was found in $PATH, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                        "/usr/local/cuda/bin. Install the CUDA toolkit, give its nvcc with -DCMAKE_CUDA_COMPILER=..., or "
                        "leave FOREBAY_CUDA at AUTO.")
  endif()
else()
  message(STATUS "CUDA backend: left out, FOREBAY_CUDA is OFF")
endif()

find_path(FOREBAY_CUDA_INCLUDE_DIR cuda_runtime_api.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)

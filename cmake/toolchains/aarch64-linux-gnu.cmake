# For arm64 by Debian's cross compiler. FOREBAY_ARM64_ROOT is a folder with the arm64 libraries; scripts/test-arm64 makes
# one. Programs of the build run under qemu's user emulation.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)

set(FOREBAY_ARM64_ROOT "" CACHE PATH "Folder with arm64 libraries and headers")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FOREBAY_ARM64_ROOT)
if(NOT IS_DIRECTORY "${FOREBAY_ARM64_ROOT}/usr/lib/aarch64-linux-gnu")
  message(FATAL_ERROR "FOREBAY_ARM64_ROOT is \"${FOREBAY_ARM64_ROOT}\", which has no usr/lib/aarch64-linux-gnu: give a "
                      "folder with arm64 libraries, or have scripts/test-arm64 make one.")
endif()
set(CMAKE_SYSROOT "${FOREBAY_ARM64_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64-static;-L;${FOREBAY_ARM64_ROOT}")

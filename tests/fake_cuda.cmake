# The CUDA backend on a fake runtime: the library's rooms with the backend in place of its stand-in, and no CUDA library.
# Needs the toolkit's headers, no nvcc, no driver and no GPU.
include_guard(GLOBAL)
get_property(rooms GLOBAL PROPERTY FOREBAY_ROOMS)
list(REMOVE_ITEM rooms cuda cuda_kernels no_cuda)
list(TRANSFORM rooms PREPEND forebay_)
set(fakes fake_cuda fake_cuda_driver fake_cudart simulated_streams)
list(TRANSFORM fakes PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM fakes APPEND .cpp)
add_library(forebay_on_fake_cuda STATIC EXCLUDE_FROM_ALL ${fakes})
target_link_libraries(forebay_on_fake_cuda PRIVATE forebay_flags PUBLIC ${rooms} forebay_cuda Threads::Threads)
target_include_directories(forebay_on_fake_cuda PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(forebay_on_fake_cuda SYSTEM PUBLIC ${FOREBAY_CUDA_INCLUDE_DIR})
set_target_properties(forebay_on_fake_cuda PROPERTIES UNITY_BUILD OFF)

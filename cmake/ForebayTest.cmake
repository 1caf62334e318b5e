# doctest and the mains of the test programs, compiled once. A program that brings a main of its own takes none of these.
set(FOREBAY_TEST_FLAGS "" CACHE STRING "Flags that the tests themselves are compiled with, such as -O0")
set(FOREBAY_TEST_LIMIT_S 300 CACHE STRING "Seconds after which a test counts as hung")
option(FOREBAY_SOLO_TESTS "Build no other test programs than those with a subject of the label solo" OFF)
separate_arguments(test_flags NATIVE_COMMAND "${FOREBAY_TEST_FLAGS}")
add_library(forebay_test_main STATIC doctest.cpp jpeg_support.cpp main.cpp places.cpp)
set(test_command $<TARGET_FILE:forebay_command>)
set(hanging_disk)
if(NOT CMAKE_CROSSCOMPILING)  # programs run under an emulator, which loads nothing before them
  add_library(hanging_disk MODULE hanging_disk.c)
  target_link_libraries(hanging_disk PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(forebay_test_main hanging_disk)
  set(hanging_disk $<TARGET_FILE:hanging_disk>)
endif()
if(CMAKE_CROSSCOMPILING_EMULATOR)
  # Tests start the command themselves, and the system may not know how.
  set(test_command ${PROJECT_BINARY_DIR}/bin/emulated_forebay)
  string(REPLACE ";" " " emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")
  file(GENERATE OUTPUT ${test_command} CONTENT "#!/bin/sh\nexec ${emulator} '$<TARGET_FILE:forebay_command>' \"$@\"\n"
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()
set_source_files_properties(places.cpp PROPERTIES COMPILE_DEFINITIONS
  "FOREBAY_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";FOREBAY_COMMAND=\"${test_command}\";FOREBAY_MPIEXEC=\"$<$<BOOL:${FOREBAY_MPI}>:${MPIEXEC_EXECUTABLE}>\";FOREBAY_HANGING_DISK=\"${hanging_disk}\"")
# Images for tests: making them would take most of the time of many.
set_source_files_properties(jpeg_support.cpp PROPERTIES COMPILE_OPTIONS -O2)
target_include_directories(forebay_test_main PRIVATE ${PROJECT_SOURCE_DIR}/include)
set_target_properties(forebay_test_main PROPERTIES UNITY_BUILD OFF FOREBAY_OF_TESTS ON)
target_link_libraries(forebay_test_main PUBLIC doctest::doctest PRIVATE JPEG::JPEG forebay_flags)
target_compile_options(forebay_test_main PRIVATE ${test_flags})
# Of all targets, and so of what is precompiled, whose support.hpp decides by it.
if(FOREBAY_SANITIZE)
  add_compile_definitions(FOREBAY_SANITIZED)
endif()
# Half of the time that a test takes to compile would go into these headers. CMAKE_DISABLE_PRECOMPILE_HEADERS compiles
# without.
add_library(forebay_test_headers OBJECT main.cpp)  # any source
# As programs are compiled, or they could not use it.
set_target_properties(forebay_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF UNITY_BUILD OFF FOREBAY_OF_TESTS ON)
target_compile_options(forebay_test_headers PRIVATE -fPIE ${test_flags})
target_link_libraries(forebay_test_headers PRIVATE forebay forebay_flags doctest::doctest)
target_precompile_headers(forebay_test_headers PRIVATE <forebay/feeder.hpp> ${CMAKE_CURRENT_SOURCE_DIR}/test.hpp)
# GCC recognises a header that it has precompiled by its bytes. Without comments in its key, ccache would return what was
# precompiled before a comment changed, and `#pragma once` would not hold.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
  set_target_properties(forebay_test_headers PROPERTIES
    CXX_COMPILER_LAUNCHER "env;CCACHE_COMMENTS=1;${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
if(FOREBAY_MPI)
  add_library(forebay_test_mpi_main STATIC mpi_main.cpp)
  target_link_libraries(forebay_test_mpi_main PUBLIC forebay_test_main forebay::mpi PRIVATE forebay_flags)
endif()

# For tests in whose processes Open MPI runs. What it leaks is suppressed by the names on the stack of each allocation, and
# those are found only by the slow way through thirty frames without pointers, which takes longer than all else. So leaks
# are looked for in those tests alone that are about MPI itself; others run the same code without MPI too.
# Each has a folder of its own for what mpirun keeps: of two that make the common one at the same moment, one fails.
function(forebay_test_with_mpi NAME)
  set(options detect_leaks=0)
  if(NAME MATCHES "^mpi_(communicator|session|startup)")
    set(options fast_unwind_on_malloc=0)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mpirun/${NAME})
  file(MAKE_DIRECTORY ${folder})
  set_tests_properties(${NAME} PROPERTIES ENVIRONMENT
    "${FOREBAY_TEST_ENVIRONMENT};ASAN_OPTIONS=${FOREBAY_TEST_ASAN} ${options};OMPI_MCA_orte_tmpdir_base=${folder}")
endfunction()

# forebay_add_tests(NAME PROGRAM RANKS ARGUMENT...): has CTest run the program test_PROGRAM with these arguments, alone or
# once per rank count under mpirun. That no case fits the arguments is a failure.
function(forebay_add_tests NAME PROGRAM RANKS)
  set(command $<TARGET_FILE:test_${PROGRAM}> ${ARGN})
  if(RANKS)
    foreach(ranks IN LISTS RANKS)
      add_test(NAME ${NAME}.ranks${ranks}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} --oversubscribe --bind-to none
                       --mca btl self,vader ${command})
      set_tests_properties(${NAME}.ranks${ranks} PROPERTIES PROCESSORS 2 LABELS mpi)
      list(APPEND names ${NAME}.ranks${ranks})
    endforeach()
  else()
    add_test(NAME ${NAME} COMMAND ${command})
    list(APPEND names ${NAME})
  endif()
  set_tests_properties(${names} PROPERTIES TIMEOUT ${FOREBAY_TEST_LIMIT_S} SKIP_RETURN_CODE 77
    FAIL_REGULAR_EXPRESSION "test cases: +0 " ENVIRONMENT
    "${FOREBAY_TEST_ENVIRONMENT};ASAN_OPTIONS=${FOREBAY_TEST_ASAN}")
  if(RANKS)
    foreach(name IN LISTS names)
      forebay_test_with_mpi(${name})
    endforeach()
  endif()
endfunction()

# forebay_test_program(NAME SOURCES ... [RANKS ...] [LIBRARIES ...] [FOREBAY target]): a doctest program, which runs alone or,
# with RANKS, under mpirun. FOREBAY: what is tested, when it is not the library as users have it.
function(forebay_test_program NAME)
  cmake_parse_arguments(TEST "" "FOREBAY" "SOURCES;RANKS;LIBRARIES" ${ARGN})
  if(NOT TEST_FOREBAY)
    set(TEST_FOREBAY forebay)
  endif()
  add_executable(test_${NAME} ${TEST_SOURCES})
  set_target_properties(test_${NAME} PROPERTIES UNITY_BUILD OFF FOREBAY_OF_TESTS ON EXCLUDE_FROM_ALL ${FOREBAY_SOLO_TESTS})
  target_compile_options(test_${NAME} PRIVATE ${test_flags})
  target_precompile_headers(test_${NAME} REUSE_FROM forebay_test_headers)
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tools ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(test_${NAME} SYSTEM PRIVATE ${FOREBAY_CONCURRENTQUEUE_DIR} ${FOREBAY_XXHASH_DIR})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_FOREBAY} forebay_flags ${TEST_LIBRARIES})
  # mpi_main.cpp's main comes first, so that the linker does not look for another.
  target_link_libraries(test_${NAME} PRIVATE $<$<BOOL:${TEST_RANKS}>:forebay_test_mpi_main> forebay_test_main)
endfunction()

# forebay_test(NAME ...): such a program, and all of it as one test of CTest.
function(forebay_test NAME)
  cmake_parse_arguments(TEST "" "FOREBAY" "SOURCES;RANKS;LIBRARIES" ${ARGN})
  forebay_test_program(${NAME} ${ARGN})
  forebay_add_tests(${NAME} ${NAME} "${TEST_RANKS}")
endfunction()

# forebay_c_test(NAME SOURCES ... LIBRARIES ... [RANKS ...]): a program in C99, run as those above.
function(forebay_c_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;RANKS;LIBRARIES" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES})
  set_target_properties(test_${NAME} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF UNITY_BUILD OFF)
  target_compile_options(test_${NAME} PRIVATE ${test_flags})
  if(FOREBAY_SANITIZE)
    # Only then does Clang link what UBSan needs for the library's C++.
    set_target_properties(test_${NAME} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
  target_link_libraries(test_${NAME} PRIVATE ${TEST_LIBRARIES} forebay_flags Threads::Threads)
  forebay_add_tests(${NAME} ${NAME} "${TEST_RANKS}")
endfunction()

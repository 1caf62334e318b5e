# forebay_test(NAME SOURCES ... [RANKS ...] [LIBRARIES ...]): a doctest program run by CTest, alone or, with RANKS,
# once per rank count under mpirun.
function(forebay_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;RANKS;LIBRARIES" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES})
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(test_${NAME} SYSTEM PRIVATE ${FOREBAY_CONCURRENTQUEUE_DIR} ${FOREBAY_XXHASH_DIR})
  target_compile_definitions(test_${NAME} PRIVATE FOREBAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${NAME} PRIVATE forebay forebay_flags doctest::doctest ${TEST_LIBRARIES})
  if(TEST_RANKS)
    foreach(ranks IN LISTS TEST_RANKS)
      add_test(NAME ${NAME}.ranks${ranks}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} --oversubscribe --bind-to none
                       --mca btl self,vader $<TARGET_FILE:test_${NAME}>)
      set_tests_properties(${NAME}.ranks${ranks} PROPERTIES PROCESSORS 2 LABELS mpi)
      list(APPEND names ${NAME}.ranks${ranks})
    endforeach()
  else()
    add_test(NAME ${NAME} COMMAND test_${NAME})
    list(APPEND names ${NAME})
  endif()
  set_tests_properties(${names} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT
    "${FOREBAY_TEST_ENVIRONMENT}")
endfunction()

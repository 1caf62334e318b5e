# What `cmake --install` gives: libraries, command, public headers, and the files by which find_package and pkg-config
# find them. The presets of the policies install from policies/.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/forebay)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# where_libraries_are(TARGET PLACE...): where a program or library looks for the libraries that it was linked with, in the
# build tree as where it is installed. What CMake would exchange when it installs is filled up with colons until then, and
# the loader takes what is empty between them for the current folder. scripts/check-runpaths refuses that.
function(where_libraries_are target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${ARGN}" BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()

# install_library(TARGET EXPORT): one export file per component, so that finding one does not need the other's
# dependencies.
function(install_library target export)
  install(TARGETS ${target} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${export} FILE ${export}.cmake NAMESPACE forebay:: DESTINATION ${package_dir})
  where_libraries_are(${target} "$ORIGIN")
endfunction()

# Relative to the .pc file itself, so that `cmake --install --prefix` and a moved prefix work.
file(RELATIVE_PATH pkgconfig_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(PKGCONFIG_PREFIX "\${pcfiledir}/${pkgconfig_to_prefix}")
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  set(PKGCONFIG_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
    set(PKGCONFIG_${dir} ${CMAKE_INSTALL_${dir}})
  endif()
endforeach()

install_library(forebay forebay-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/forebay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN detail EXCLUDE PATTERN mpi.hpp EXCLUDE PATTERN forebay_mpi.h EXCLUDE)
install_library(forebay_c forebay-c-targets)

# A shared library brings its own dependencies; only what links a static one must name them.
set(PKGCONFIG_REQUIRES "")
set(PKGCONFIG_LIBS "")
if(NOT BUILD_SHARED_LIBS)
  set(PKGCONFIG_REQUIRES "libjpeg, libpng, zlib, tinyxml2, spdlog, tomlplusplus, libhwy")
  foreach(package IN LISTS forebay_codec_packages)
    string(APPEND PKGCONFIG_REQUIRES ", ${package}")
  endforeach()
  set(PKGCONFIG_LIBS "-pthread")
  if(FOREBAY_HAS_CUDA)
    string(APPEND PKGCONFIG_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
  endif()
endif()
foreach(package IN ITEMS forebay forebay-c)
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc DESTINATION ${pkgconfig_dir})
endforeach()

if(FOREBAY_MPI)
  install_library(forebay_mpi forebay-mpi-targets)
  install_library(forebay_c_mpi forebay-c-mpi-targets)
  install(FILES ${PROJECT_SOURCE_DIR}/include/forebay/mpi.hpp ${PROJECT_SOURCE_DIR}/include/forebay/forebay_mpi.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/forebay)
  # MPI implementations do not agree on a name for their .pc file, so ours says what FindMPI found.
  set(PKGCONFIG_MPI_CFLAGS ${MPI_C_COMPILE_OPTIONS})
  get_target_property(definitions forebay_mpi INTERFACE_COMPILE_DEFINITIONS)
  foreach(definition IN LISTS definitions)
    list(APPEND PKGCONFIG_MPI_CFLAGS -D${definition})
  endforeach()
  foreach(dir IN LISTS MPI_C_INCLUDE_DIRS)
    list(APPEND PKGCONFIG_MPI_CFLAGS -I${dir})
  endforeach()
  list(JOIN PKGCONFIG_MPI_CFLAGS " " PKGCONFIG_MPI_CFLAGS)
  list(JOIN MPI_C_LIBRARIES " " PKGCONFIG_MPI_LIBS)
  string(PREPEND PKGCONFIG_MPI_LIBS "${MPI_C_LINK_FLAGS} ")
  string(STRIP "${PKGCONFIG_MPI_LIBS}" PKGCONFIG_MPI_LIBS)
  foreach(package IN ITEMS forebay-mpi forebay-c-mpi)
    configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc DESTINATION ${pkgconfig_dir})
  endforeach()
endif()

if(TARGET _core AND BUILD_SHARED_LIBS)
  where_libraries_are(_core ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})  # for development; a package has all in one module
elseif(TARGET _core)
  where_libraries_are(_core)
endif()
if(TARGET forebay_command)
  install(TARGETS forebay_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set(places "$ORIGIN/${bin_to_lib}" "$ORIGIN/../lib")  # the second is the build tree's
  list(REMOVE_DUPLICATES places)
  where_libraries_are(forebay_command ${places})
endif()

configure_package_config_file(cmake/forebay-config.cmake.in forebay-config.cmake INSTALL_DESTINATION ${package_dir}
                              NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/forebay-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/forebay-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/forebay-config-version.cmake DESTINATION ${package_dir})

# Licences, and what was compiled in or is needed of others.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  set(documents ${CMAKE_INSTALL_DOCDIR})
  if(NOT IS_ABSOLUTE "${documents}")
    set(documents "\${CMAKE_INSTALL_PREFIX}/${documents}")
  endif()
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/third_party.py prefix
                                        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" \"\$ENV{DESTDIR}${documents}\"
                                RESULT_VARIABLE result)
                if(NOT result EQUAL 0)
                  message(WARNING \"no notices of other packages were written: scripts/third_party.py failed\")
                endif()")
endif()

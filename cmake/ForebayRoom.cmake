# Flags that every target of this project is built with; nothing of it reaches users of the library.
add_library(forebay_flags INTERFACE)
set(own_flags -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(FOREBAY_WERROR)
  list(APPEND own_flags -Werror)
endif()
# GCC 12 reports overlaps in std::string's operator+ that cannot happen (its bug 105651).
list(APPEND own_flags $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Clang's -Wconversion looks for more than GCC's.
list(APPEND own_flags $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)
# A step goes through many small functions: the compiler may inline them, although another library could define them too.
list(APPEND own_flags $<$<NOT:$<CONFIG:Debug>>:-fno-semantic-interposition>)
# Pixels and coefficients must not depend on whether the compiler fuses multiply and add.
list(APPEND own_flags -ffp-contract=off)
target_compile_options(forebay_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${own_flags}>")
# nvcc passes the host's part of a file on with code of its own, which our warnings would not let through.
set(nvcc_flags -fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-ffp-contract=off)
if(FOREBAY_WERROR)
  list(APPEND nvcc_flags -Werror=all-warnings)
endif()
target_compile_options(forebay_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${nvcc_flags}>")
if(FOREBAY_SANITIZE)
  target_compile_options(forebay_flags INTERFACE -fsanitize=${FOREBAY_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  # C libraries that are loaded by name have handles of types of their own.
  target_compile_options(forebay_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  if(FOREBAY_SANITIZE MATCHES address)
    # UBSan and the end of scopes double the time that a test takes to compile. These options must come after the others.
    target_compile_options(forebay_flags INTERFACE
      "$<$<BOOL:$<TARGET_PROPERTY:FOREBAY_OF_TESTS>>:-fno-sanitize=undefined;-fno-sanitize-address-use-after-scope>")
  endif()
  target_link_options(forebay_flags INTERFACE -fsanitize=${FOREBAY_SANITIZE})
  if(FOREBAY_SANITIZE MATCHES thread)
    # moodycamel's queue uses fences, which ThreadSanitizer cannot model; tests/tsan.supp has the consequence.
    target_compile_options(forebay_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

if(FOREBAY_FUZZ)
  target_compile_options(forebay_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(forebay_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# forebay_harden(TARGET): for what is installed. A function checks that nothing was written past its arrays, calls of the C
# library check sizes that the compiler knows, jumps and returns of Arm's processors lead where they are meant to, and nothing
# can be written where the addresses of functions are. docs/security.md says so.
include(CheckCXXCompilerFlag)
function(forebay_harden TARGET)
  if(NOT FOREBAY_HARDENING OR FOREBAY_SANITIZE OR FOREBAY_FUZZ)
    return()
  endif()
  foreach(flag IN ITEMS -fstack-protector-strong -fstack-clash-protection -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "FOREBAY_HAS${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
      target_compile_options(${TARGET} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:${flag}>)
    endif()
  endforeach()
  # The level of whoever builds, a distribution say, goes before this one.
  if(NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS}" MATCHES _FORTIFY_SOURCE)
    target_compile_options(${TARGET} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
  get_target_property(type ${TARGET} TYPE)
  if(NOT type MATCHES "OBJECT_LIBRARY|STATIC_LIBRARY")
    target_link_options(${TARGET} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  endif()
endfunction()

# Under a sanitizer optimising takes longest of all, and pays where pixels, queues and simulated steps are counted in
# millions.
function(forebay_spare_optimising TARGET)
  if(FOREBAY_SANITIZE)
    target_compile_options(${TARGET} PRIVATE -O0)
  endif()
endfunction()

# forebay_room(NAME [FOLDER path] [WITHOUT file...] [LIBRARIES ...] [APART]): a folder of the house, of which every .cpp is
# compiled but those named WITHOUT. It sees include/ and src/; scripts/check-house keeps it to the rooms below it. APART: the
# library does without it, and it is compiled for whoever links forebay_NAME.
function(forebay_room NAME)
  cmake_parse_arguments(ROOM "APART" "FOLDER" "LIBRARIES;WITHOUT;SOURCES" ${ARGN})
  if(NOT ROOM_FOLDER)
    set(ROOM_FOLDER ${NAME})
  endif()
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${ROOM_FOLDER}/*.cpp)
    list(TRANSFORM ROOM_WITHOUT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${ROOM_FOLDER}/)
    list(REMOVE_ITEM ROOM_SOURCES ${ROOM_WITHOUT})
  endif()
  add_library(forebay_${NAME} OBJECT ${ROOM_SOURCES})
  target_include_directories(forebay_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(forebay_${NAME} SYSTEM PRIVATE ${FOREBAY_CONCURRENTQUEUE_DIR} ${FOREBAY_XXHASH_DIR})
  target_link_libraries(forebay_${NAME} PRIVATE forebay_flags ${ROOM_LIBRARIES})
  # What next() runs at every step sees no byte of a file, and the checks would be a tenth of its instructions.
  if(NOT NAME MATCHES "^(ring|serve|measure|policies|feeder)$")
    forebay_harden(forebay_${NAME})
  endif()
  # One translation unit for a room: its headers are compiled once.
  set_target_properties(forebay_${NAME} PROPERTIES UNITY_BUILD ${FOREBAY_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  if(NAME MATCHES "^(base|config|data|order|read|measure|serve|ranks|produce|job|feeder)$")
    forebay_spare_optimising(forebay_${NAME})
  endif()
  if(ROOM_APART)
    set_target_properties(forebay_${NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY FOREBAY_ROOMS ${NAME})
  target_sources(forebay PRIVATE $<TARGET_OBJECTS:forebay_${NAME}>)
  target_link_libraries(forebay PRIVATE ${ROOM_LIBRARIES})
endfunction()

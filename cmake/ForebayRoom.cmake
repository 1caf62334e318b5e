# Flags that every target of this project is built with; nothing of it reaches users of the library.
add_library(forebay_flags INTERFACE)
target_compile_options(forebay_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                       $<$<BOOL:${FOREBAY_WERROR}>:-Werror>)
# GCC 12 reports overlaps in std::string's operator+ that cannot happen (its bug 105651).
target_compile_options(forebay_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Pixels and coefficients must not depend on whether the compiler fuses multiply and add.
target_compile_options(forebay_flags INTERFACE -ffp-contract=off)
if(FOREBAY_SANITIZE)
  target_compile_options(forebay_flags INTERFACE -fsanitize=${FOREBAY_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(forebay_flags INTERFACE -fsanitize=${FOREBAY_SANITIZE})
  if(FOREBAY_SANITIZE MATCHES thread)
    # moodycamel's queue uses fences, which ThreadSanitizer cannot model; tests/tsan.supp has the consequence.
    target_compile_options(forebay_flags INTERFACE -Wno-tsan)
  endif()
endif()

# forebay_room(NAME SOURCES ... [LIBRARIES ...]): a folder of the house. It sees include/ and itself, no other room.
function(forebay_room NAME)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(forebay_${NAME} OBJECT ${ROOM_SOURCES})
  target_include_directories(forebay_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_include_directories(forebay_${NAME} SYSTEM PRIVATE ${FOREBAY_CONCURRENTQUEUE_DIR} ${FOREBAY_XXHASH_DIR})
  target_link_libraries(forebay_${NAME} PRIVATE forebay_flags ${ROOM_LIBRARIES})
  target_sources(forebay PRIVATE $<TARGET_OBJECTS:forebay_${NAME}>)
  target_link_libraries(forebay PRIVATE ${ROOM_LIBRARIES})
endfunction()

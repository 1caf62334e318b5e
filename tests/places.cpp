#include "support.hpp"

namespace forebay::testing {

// In a separate file: if the paths were compiler flags of every test, a compiler cache could not be
// shared between source trees or builds.
std::filesystem::path source_dir() { return FOREBAY_SOURCE_DIR; }
std::string built_command() { return FOREBAY_COMMAND; }
std::string hanging_disk() { return FOREBAY_HANGING_DISK; }
std::string mpiexec() { return FOREBAY_MPIEXEC; }

}  // namespace forebay::testing

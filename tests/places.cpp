#include "support.hpp"

namespace forebay::testing {

// Compiled once: were the paths flags of every test, no two trees, and no two builds of one, could share what a
// compiler cache holds.
std::filesystem::path source_dir() { return FOREBAY_SOURCE_DIR; }
std::string built_command() { return FOREBAY_COMMAND; }
std::string hanging_disk() { return FOREBAY_HANGING_DISK; }
std::string mpiexec() { return FOREBAY_MPIEXEC; }

}  // namespace forebay::testing

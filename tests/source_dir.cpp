#include "support.hpp"

namespace forebay::testing {

// Compiled once: were the path a flag of every test, no two trees could share what a compiler cache holds.
std::filesystem::path source_dir() { return FOREBAY_SOURCE_DIR; }

}  // namespace forebay::testing

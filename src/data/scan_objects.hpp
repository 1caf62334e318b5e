#pragma once

#include <string>

#include "scan.hpp"

namespace forebay::data {

// scan_folder() and scan_tree() of objects, which have no folders: those follow from their names. Nothing of the
// folders is noted for later, when nobody lists them again. Throw SampleError, ConfigError.
[[nodiscard]] Scan scan_objects(const std::string& root, const std::string& folder, bool is_deep);
[[nodiscard]] Scan scan_objects(const std::string& root, unsigned threads, const IndexProgress& progress);

}  // namespace forebay::data

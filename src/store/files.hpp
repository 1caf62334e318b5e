#pragma once

#include <cstddef>
#include <forebay/dataset.hpp>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "objects.hpp"
#include "url.hpp"

// One set of functions for files and objects: a path is opened as a file, a URL by its store. Semantics and errors are
// those of base/file_io.hpp. Any thread.
namespace forebay::store {

[[nodiscard]] OpenFile open_regular(const std::string& path);
// Waits for a store that fails (base/retry.hpp).
[[nodiscard]] OpenFile open_patiently(const std::string& path);
[[nodiscard]] std::string problem_of_file(const std::string& path);
[[nodiscard]] std::vector<std::byte> load_file(const std::string& path, std::size_t limit);
[[nodiscard]] std::vector<std::string> lines_of_file(const std::string& path, std::size_t limit);

}  // namespace forebay::store

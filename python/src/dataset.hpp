#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "listed_dataset.hpp"
#include "references.hpp"

namespace forebay::python {

// Image files by path, read without Python. Throws ConfigError if the lists do not match.
[[nodiscard]] std::shared_ptr<Dataset> files_dataset(std::vector<std::string> paths, SampleList list);

// The bytes of image files in memory that `owner` keeps alive, read without Python. `identity` distinguishes the data
// from other data. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<Dataset> memory_dataset(nb::object owner, std::vector<std::span<const std::byte>> images,
                                                      SampleList list, std::string identity);

void bind_datasets(nb::module_& module);

}  // namespace forebay::python

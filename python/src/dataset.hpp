#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "references.hpp"

namespace forebay::python {

// The labels and classes of a program's own samples.
struct SampleList {
  std::vector<std::int64_t> labels;  // one for each sample, or none at all: unlabelled
  std::vector<std::string> classes;
};

// Image files by path, read without Python. Throws ConfigError if the lists do not match.
[[nodiscard]] std::shared_ptr<Dataset> files_dataset(std::vector<std::string> paths, SampleList list);

// Samples that a Python object returns one by one: read(id) returns the bytes of an image file, or its path. Each read
// takes the GIL. `identity` distinguishes the data from other data. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<Dataset> object_dataset(nb::object read, std::uint64_t size, SampleList list,
                                                      std::string identity);

void bind_datasets(nb::module_& module);

}  // namespace forebay::python

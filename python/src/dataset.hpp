#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "references.hpp"

namespace forebay::python {

// Where the samples of a program's own come from.
struct SampleList {
  std::vector<std::int64_t> labels;  // one for each sample, or none at all: unlabelled
  std::vector<std::string> classes;
};

// Image files by their paths: read without Python. Throws ConfigError where the lists do not fit each other.
[[nodiscard]] std::shared_ptr<Dataset> files_dataset(std::vector<std::string> paths, SampleList list);

// Samples that a Python object gives one by one: read(id) returns the bytes of an image file, or the path of one. Each
// read takes the GIL. `identity` distinguishes the data from other data. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<Dataset> object_dataset(nb::object read, std::uint64_t size, SampleList list,
                                                      std::string identity);

void bind_datasets(nb::module_& module);

}  // namespace forebay::python

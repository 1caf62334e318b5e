#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "array_files.hpp"

namespace forebay::data {

// The labels that an array has for its entries.
struct ArrayLabels {
  std::vector<std::string> classes;
  std::vector<std::int32_t> numbers;  // by entry: into `classes`, or -1
  // The entries whose label is damage, in order, each with what is wrong.
  std::vector<std::pair<std::uint32_t, std::string>> bad;
};

// Reads them: a class number, a name, or a row of one 1 among 0s (one-hot) for each entry. Where nearly all are class
// numbers, the others are damage. `given`: dataset.classes. Throws UnfitArray, without the array's name, if they are
// something else. REQUIRES: a dimension.
[[nodiscard]] ArrayLabels labels_of_array(const ArrayFiles::Loaded& loaded, const std::vector<std::string>& given);

}  // namespace forebay::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

namespace forebay::read {

// The error for a sample that is bad because of a field. Names the field, and its file if it has one. Any thread.
[[nodiscard]] inline SampleError field_error(const Dataset& dataset, std::uint64_t id, std::size_t field,
                                             const SampleError& error) {
  const std::string file = dataset.field_name(id, field);
  return SampleError(
      "field \"" + dataset.fields()[field].name + "\"" + (file.empty() ? "" : " (" + file + ")") + ": " + error.what(),
      error.is_transient() ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

}  // namespace forebay::read

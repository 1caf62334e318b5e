#pragma once

#include <cstddef>
#include <span>

#include <forebay/field.hpp>

namespace forebay::make {

// Writes an array of a sample as elements of the field: from an npy file, whose numbers may be of another type as long
// as the field's holds them, or from the elements alone. `to` has room for a sample. Throws SampleError for another
// shape, another number of bytes, and numbers that the field's type does not hold. Any thread.
void write_array(const Field& field, std::span<const std::byte> bytes, std::span<std::byte> to);

}  // namespace forebay::make

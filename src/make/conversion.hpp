#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <forebay/options.hpp>
#include <forebay/tensor.hpp>

#include "kernels.hpp"
#include "views.hpp"

namespace forebay::make {

// Returns the same options. Throws ConfigError, naming the key, if they cannot be honoured. Any
// thread may call the functions of this header.
[[nodiscard]] const TransformOptions& checked(const TransformOptions& options);

// Says what is wrong with the combination of transform.crop, size, resize, padding, fill and when,
// beginning with the key; empty if nothing is.
[[nodiscard]] std::string crop_problem(const TransformOptions& options);

// `deterministic` (evaluation) turns mirroring off and a random crop into the central one. REQUIRES: checked().
[[nodiscard]] ViewRule view_rule(const TransformOptions& options, bool deterministic) noexcept;

// uint8 keeps pixel values as they are. Other types store fma(value, 1 / std, -mean / std): the
// constants are computed in double and rounded to float, and the result is rounded to float and
// then to the type. `stream`: store past the caches. REQUIRES: checked().
[[nodiscard]] Conversion conversion_of(const TransformOptions& options, bool stream) noexcept;

// The table of elements: for each channel and 8-bit value, fma(value, scale, offset) as `dtype`;
// for uint8 the value itself.
[[nodiscard]] Conversion::Table element_table(const std::array<float, 3>& scale, const std::array<float, 3>& offset,
                                              DType dtype) noexcept;

// The kernels' convert() or, for one channel, convert_grey(); the scalar one if that does not
// reproduce the table, as on a processor without fused multiply-add.
[[nodiscard]] decltype(Kernels::convert) trusted_convert(const Kernels& kernels, const Conversion& conversion) noexcept;

// The bits of `value` rounded once to the nearest number of `dtype`, ties to even (IEEE 754),
// including subnormals and overflow to infinity, in the low size_of(dtype) bytes. It rounds
// straight from double because by way of float a 16-bit result can be off by one. For uint8: the
// nearest integer in 0..255.
[[nodiscard]] std::uint32_t encode(double value, DType dtype) noexcept;

}  // namespace forebay::make

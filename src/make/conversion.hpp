#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <forebay/options.hpp>
#include <forebay/tensor.hpp>

#include "kernels.hpp"
#include "views.hpp"

namespace forebay::make {

// Returns the same options. Throws ConfigError naming the key if they cannot be honoured. Any thread may call all of
// these.
[[nodiscard]] const TransformOptions& checked(const TransformOptions& options);

// What is wrong with how transform.crop, size, resize, padding, fill and when go together, beginning with the key;
// empty: nothing.
[[nodiscard]] std::string crop_problem(const TransformOptions& options);

// `deterministic` (evaluation) turns mirroring off and a random crop into the central one. REQUIRES: checked().
[[nodiscard]] ViewRule view_rule(const TransformOptions& options, bool deterministic) noexcept;

// uint8 keeps pixel values as they are. Other types store fma(value, 1 / std, -mean / std) with constants computed in
// double and rounded to float; the result is rounded once to float and then to the type. REQUIRES: checked().
[[nodiscard]] Conversion conversion_of(const TransformOptions& options, bool stream) noexcept;

// The element of each value of each channel that fma(value, scale, offset) is.
[[nodiscard]] Conversion::Table element_table(const std::array<float, 3>& scale, const std::array<float, 3>& offset,
                                              DType dtype) noexcept;

// These kernels' convert() or, for one channel, convert_grey(); the scalar one if that does not reproduce the table, as
// on a processor without fused multiply-add.
[[nodiscard]] decltype(Kernels::convert) trusted_convert(const Kernels& kernels, const Conversion& conversion) noexcept;

// The bits of `value` rounded once to the nearest number of `dtype`, ties to even (IEEE 754), subnormals and overflow
// to infinity included; in the low size_of(dtype) bytes. Rounding straight from double matters: by way of float a
// 16-bit result can be off by one. For uint8: the nearest integer in 0 to 255. Any thread may call.
[[nodiscard]] std::uint32_t encode(double value, DType dtype) noexcept;

}  // namespace forebay::make

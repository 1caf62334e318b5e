#pragma once

#include <cstdint>

#include <forebay/tensor.hpp>

namespace forebay {

// The bits of `value` rounded once to the nearest number of `dtype`, ties to even (IEEE 754), subnormals and overflow
// to infinity included; in the low size_of(dtype) bytes. Rounding straight from double matters: by way of float a
// 16-bit result can be off by one. For uint8: the nearest integer in 0 to 255. Any thread may call.
[[nodiscard]] std::uint32_t encode(double value, DType dtype) noexcept;

}  // namespace forebay

#pragma once

#include <cstdint>

namespace forebay {

inline double as_double(std::uint64_t count) noexcept { return static_cast<double>(count); }

// 0 when there is no whole.
inline double ratio(double part, double whole) noexcept { return whole > 0 ? part / whole : 0; }

}  // namespace forebay

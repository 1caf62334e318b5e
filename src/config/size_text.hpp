#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forebay::config {

// Bytes from "4096", "64 MB" (10^6) or "256MiB" (2^20); units up to T. Nothing when it is not a size or does not fit.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text);

// Exactly so many bytes in the largest unit that divides them: "256MiB", "64MB"; "" when none above the byte does.
[[nodiscard]] std::string exact_size(std::int64_t bytes);

}  // namespace forebay::config

#pragma once

#include <cstddef>
#include <string_view>

#include <forebay/detail/text.hpp>

namespace forebay {

// `text` (well-formed UTF-8) cut to at most `columns` characters, each counted as one column.
[[nodiscard]] std::string_view clip(std::string_view text, std::size_t columns) noexcept;

}  // namespace forebay

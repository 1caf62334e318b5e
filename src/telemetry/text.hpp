#pragma once

#include <string>
#include <string_view>

namespace forebay {

// `text` with every byte that is not part of well-formed UTF-8 replaced by the four characters \xNN. File names may
// hold arbitrary bytes; JSON may not.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// The same, and control characters as \xNN too: a file name must not move the cursor of somebody's terminal.
[[nodiscard]] std::string printable(std::string_view text);

// `text` (well-formed UTF-8) cut to at most `columns` characters, each counted as one column.
[[nodiscard]] std::string_view clip(std::string_view text, std::size_t columns) noexcept;

}  // namespace forebay

#pragma once

#include <string>
#include <string_view>

namespace forebay {

// `text` with every byte that is not part of well-formed UTF-8 replaced by the four characters \xNN. File names may
// hold arbitrary bytes; JSON may not.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// The same, and control characters as \xNN too: a file name must not move the cursor of somebody's terminal. What names
// files or what is in them goes through this before it reaches a terminal or a log line.
[[nodiscard]] std::string printable(std::string_view text);

// The same, but line feeds stay: for whole messages, which may have several lines.
[[nodiscard]] std::string printable_lines(std::string_view text);

}  // namespace forebay

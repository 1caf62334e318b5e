#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// One record of a list file: a field and perhaps a second one. Views, because a list may have ten million lines.
struct ListRecord {
  std::size_t line = 0;  // where it begins, from 1
  std::string_view first;
  std::string_view second;
  bool has_second = false;
};

// Reads `first[,second]` records. Lines end with LF or CRLF; empty lines and lines that begin with '#' are comments; a
// UTF-8 byte order mark is ignored. Unquoted fields lose surrounding blanks and tabs. A field in double quotes is taken
// as it stands, commas and line breaks included, with "" for a quote (RFC 4180, section 2).
// The fields are views of `text`; quoted ones of what is added to `quoted`. Throws ConfigError naming `file` and the
// line.
[[nodiscard]] std::vector<ListRecord> parse_list(std::string_view text, const std::string& file,
                                                 std::deque<std::string>& quoted);

}  // namespace forebay

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// One record of a list file: a field and perhaps a second one.
struct ListRecord {
  std::size_t line = 0;  // where it begins, from 1
  std::string first;
  std::string second;
  bool has_second = false;
};

// Reads `first[,second]` records. Lines end with LF or CRLF; empty lines and lines that begin with '#' are comments; a
// UTF-8 byte order mark is ignored. Unquoted fields lose surrounding blanks and tabs. A field in double quotes is taken
// as it stands, commas and line breaks included, with "" for a quote (RFC 4180, section 2).
// Throws ConfigError naming `file` and the line.
[[nodiscard]] std::vector<ListRecord> parse_list(std::string_view text, const std::string& file);

}  // namespace forebay

#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::data {

// Reads a text table row by row: RFC 4180, as interpreted by Python's csv module. A field that begins with a double
// quote is quoted: it may hold separators and line breaks, and "" is a quote. Rows end with LF, CRLF or CR; empty ones
// are skipped. Blanks belong to their fields. One thread.
class CsvRows {
 public:
  // `text` must outlive the reader. `file` names it in errors. Throws ConfigError for UTF-16 and for bytes that are not
  // text.
  CsvRows(std::string_view text, std::string file, char separator);

  // The fields of the next row; false at the end. They are valid until the next call. Throws ConfigError naming file
  // and line for a quote that is never closed, which Python accepts.
  bool next(std::vector<std::string_view>& fields);
  // The line on which the last row began, from 1.
  [[nodiscard]] std::size_t line() const noexcept { return row_line_; }

 private:
  [[nodiscard]] std::string_view field();
  [[nodiscard]] std::string_view quoted_field();
  // Skips the end of a row.
  void end_row();

  std::string_view rest_;
  std::string file_;
  char separator_;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;
  std::deque<std::string> quoted_;  // of this row
};

}  // namespace forebay::data

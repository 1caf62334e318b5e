#include "csv.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <utility>

namespace forebay::data {

// RFC 4180 as read by Python's csv module and pandas: within quotes, quotes are doubled and line
// breaks are allowed; rows may have any of the three line ends. Fields are views of the text,
// except quoted ones, which are copies.
CsvRows::CsvRows(std::string_view text, std::string file, char separator)
    : rest_(text), file_(std::move(file)), separator_(separator) {
  const auto refuse = [&](const char* problem) { throw ConfigError(file_ + ": " + problem); };
  if (rest_.starts_with("\xFF\xFE") || rest_.starts_with("\xFE\xFF")) refuse("UTF-16 text; convert it to UTF-8");
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  if (rest_.find('\0') != std::string_view::npos) refuse("a NUL byte; this is not a text file");
}

// Skips empty lines. row_line_ is the line on which the row begins; it may span several.
bool CsvRows::next(std::vector<std::string_view>& fields) {
  fields.clear();
  quoted_.clear();
  while (!rest_.empty() && (rest_.front() == '\n' || rest_.front() == '\r')) end_row();
  if (rest_.empty()) return false;
  row_line_ = line_;
  for (;;) {
    fields.push_back(field());
    if (!rest_.starts_with(separator_)) break;
    rest_.remove_prefix(1);
  }
  end_row();
  return true;
}

std::string_view CsvRows::field() {
  if (rest_.starts_with('"')) return quoted_field();
  const char ends[] = {separator_, '\n', '\r', '\0'};
  const std::string_view text = rest_.substr(0, rest_.find_first_of(ends));
  rest_.remove_prefix(text.size());
  return text;
}

// Anything between the closing quote and the separator belongs to the field, as in Python.
std::string_view CsvRows::quoted_field() {
  const std::size_t opened = line_;
  std::string text;
  rest_.remove_prefix(1);
  for (;;) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      throw ConfigError(file_ + ":" + std::to_string(opened) + ": a double quote is opened and never closed");
    }
    const std::string_view part = rest_.substr(0, quote);
    for (std::size_t i = 0; i < part.size(); ++i) {
      line_ += part[i] == '\n' || (part[i] == '\r' && !part.substr(i + 1).starts_with('\n')) ? 1 : 0;
    }
    text += part;
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    text += '"';
    rest_.remove_prefix(1);
  }
  const char ends[] = {separator_, '\n', '\r', '\0'};
  const std::string_view behind = rest_.substr(0, rest_.find_first_of(ends));
  text += behind;
  rest_.remove_prefix(behind.size());
  return quoted_.emplace_back(std::move(text));
}

void CsvRows::end_row() {
  if (rest_.empty()) return;
  ++line_;
  rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
}

}  // namespace forebay::data

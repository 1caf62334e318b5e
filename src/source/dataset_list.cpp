#include "dataset_list.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <utility>

namespace forebay {
namespace {

constexpr auto npos = std::string_view::npos;

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == npos ? std::string_view{} : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

class ListParser {
 public:
  ListParser(std::string_view text, const std::string& file, std::deque<std::string>& quoted)
      : rest_(text), file_(file), quoted_(quoted) {
    if (rest_.starts_with("\xFF\xFE") || rest_.starts_with("\xFE\xFF")) fail("UTF-16 text; convert it to UTF-8");
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    if (rest_.find('\0') != npos) {
      skip_to(rest_.find('\0'));
      fail("a NUL byte; this is not a text file");
    }
  }

  std::vector<ListRecord> parse() {
    std::vector<ListRecord> records;
    records.reserve(static_cast<std::size_t>(std::count(rest_.begin(), rest_.end(), '\n')) + 1);
    while (!rest_.empty()) {
      const auto line = without_blanks(rest_.substr(0, rest_.find('\n')));
      if (line.empty() || line.front() == '#') {
        end_line();
      } else {
        records.push_back(record());
      }
    }
    return records;
  }

 private:
  ListRecord record() {
    ListRecord record;
    record.line = line_;
    record.first = field();
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
      record.second = field();
      record.has_second = true;
    }
    if (rest_.starts_with(',')) fail("more than two fields; put a field that contains a comma in double quotes");
    if (record.first.empty()) fail("the first field is empty");
    end_line();
    return record;
  }

  // Up to the comma or the end of the line, which is left in place.
  std::string_view field() {
    const auto start = rest_.find_first_not_of(" \t");
    if (start != npos && rest_[start] == '"') return quoted(start + 1);
    const auto end = std::min(rest_.find_first_of(",\n"), rest_.size());
    const auto text = without_blanks(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  std::string_view quoted(std::size_t start) {
    const std::size_t opened = line_;
    skip_to(start);
    std::string text;
    for (;;) {
      const auto quote = rest_.find('"');
      if (quote == npos) {
        line_ = opened;
        fail("a double quote is opened and never closed");
      }
      text.append(rest_.substr(0, quote));
      skip_to(quote + 1);
      if (!rest_.starts_with('"')) break;
      text += '"';
      rest_.remove_prefix(1);
    }
    const auto after = rest_.substr(0, rest_.find_first_of(",\n"));
    if (!without_blanks(after).empty()) fail("text after a closing double quote");
    rest_.remove_prefix(after.size());
    return quoted_.emplace_back(std::move(text));
  }

  // REQUIRES: what is left of the line does not matter.
  void end_line() {
    const auto end = rest_.find('\n');
    skip_to(end == npos ? rest_.size() : end + 1);
  }

  void skip_to(std::size_t offset) {
    for (const char c : rest_.substr(0, offset)) line_ += c == '\n' ? 1 : 0;
    rest_.remove_prefix(offset);
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw ConfigError(file_ + ":" + std::to_string(line_) + ": " + problem);
  }

  std::string_view rest_;
  const std::string& file_;
  std::deque<std::string>& quoted_;
  std::size_t line_ = 1;
};

}  // namespace

std::vector<ListRecord> parse_list(std::string_view text, const std::string& file, std::deque<std::string>& quoted) {
  return ListParser(text, file, quoted).parse();
}

}  // namespace forebay

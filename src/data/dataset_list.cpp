#include "dataset_list.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <utility>

#include "list_shape.hpp"

namespace forebay {
namespace {

class ListParser {
 public:
  ListParser(std::string_view text, const std::string& file, std::deque<std::string>& quoted)
      : rest_(text), file_(file), quoted_(quoted) {
    if (rest_.starts_with("\xFF\xFE") || rest_.starts_with("\xFE\xFF")) fail("UTF-16 text; convert it to UTF-8", line_);
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    if (rest_.find('\0') != kNowhere) {
      skip_to(rest_.find('\0'));
      fail("a NUL byte; this is not a text file", line_);
    }
  }

  std::vector<ListRecord> parse() {
    separator_ = separator_of(rest_);
    std::vector<ListRecord> records;
    records.reserve(static_cast<std::size_t>(std::count(rest_.begin(), rest_.end(), '\n')) + 1);
    if (!read_record()) return records;
    const std::vector<std::string_view> first = fields_;
    const std::size_t first_line = record_line_;
    bool is_more = read_record();
    if (const auto header = find_header(first, is_more ? fields_.front() : "")) {
      if (!header->problem.empty()) fail(header->problem, first_line);
      columns_ = header->columns;
      most_ = std::max(most_, first.size());
    } else {
      records.push_back(to_record(first, first_line));
    }
    for (; is_more; is_more = read_record()) records.push_back(to_record(fields_, record_line_));
    return records;
  }

 private:
  // The fields of the next line that is no comment; false at the end.
  bool read_record() {
    fields_.clear();
    while (!rest_.empty()) {
      const auto line = without_blanks(rest_.substr(0, rest_.find('\n')));
      record_line_ = line_;
      if (line.empty() || line.front() == '#') {
        end_line();
        continue;
      }
      was_quoted_ = false;
      fields_.push_back(field());
      if (separator_ == ' ') add_label_behind_path();
      while (rest_.starts_with(separator_)) {
        rest_.remove_prefix(1);
        fields_.push_back(field());
      }
      end_line();
      return true;
    }
    return false;
  }

  [[nodiscard]] ListRecord to_record(const std::vector<std::string_view>& fields, std::size_t line) const {
    std::size_t size = fields.size();
    while (size > 2 && fields[size - 1].empty()) --size;  // a spreadsheet's empty columns
    if (size > most_) {
      fail("more than " + std::string(most_ == 2 ? "two" : std::to_string(most_)) +
               " fields; a line is path[,label], one class per image (no sets of labels, no boxes). Put a field that "
               "contains a comma in double quotes",
           line);
    }
    ListRecord record;
    record.line = line;
    if (columns_.path < size) record.first = fields[columns_.path];
    record.has_second = columns_.label < size;
    if (record.has_second) record.second = fields[columns_.label];
    if (record.first.empty()) fail(columns_.path == 0 ? "the first field is empty" : "the path is empty", line);
    return record;
  }

  // Up to the separator or the end of the line, which is left in place.
  std::string_view field() {
    const auto start = rest_.find_first_not_of(separator_ == '\t' ? " " : " \t");
    if (start != kNowhere && rest_[start] == '"') return quoted(start + 1);
    auto end = std::min(rest_.find('\n'), rest_.size());
    if (separator_ != ' ') end = std::min(end, rest_.find(separator_));
    const auto text = without_blanks(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  // "a.jpg 0": the field is a whole line, unless its path was in quotes.
  void add_label_behind_path() {
    const auto end = std::min(rest_.find('\n'), rest_.size());
    if (const auto behind = without_blanks(rest_.substr(0, end)); !behind.empty()) {
      fields_.push_back(behind);
      rest_.remove_prefix(end);
      return;
    }
    const std::string_view line = fields_.front();
    const auto label = label_after_path(line);
    if (label == kNowhere || was_quoted_) return;
    fields_.front() = without_blanks(line.substr(0, label));
    fields_.push_back(line.substr(label));
    if (is_picture_name(fields_.back().substr(0, fields_.back().find_first_of(" \t")))) {
      fail("two paths in a line; a line is one path and its label", record_line_);
    }
  }

  std::string_view quoted(std::size_t start) {
    const std::size_t opened = line_;
    skip_to(start);
    std::string text;
    for (;;) {
      const auto quote = rest_.find('"');
      if (quote == kNowhere) {
        fail("a double quote is opened and never closed", opened);
      }
      text.append(rest_.substr(0, quote));
      skip_to(quote + 1);
      if (!rest_.starts_with('"')) break;
      text += '"';
      rest_.remove_prefix(1);
    }
    was_quoted_ = true;
    if (separator_ == ' ') return quoted_.emplace_back(std::move(text));
    const auto end = std::min({rest_.find(separator_), rest_.find('\n'), rest_.size()});
    if (!without_blanks(rest_.substr(0, end)).empty()) fail("text after a closing double quote", line_);
    rest_.remove_prefix(end);
    return quoted_.emplace_back(std::move(text));
  }

  // REQUIRES: what is left of the line does not matter.
  void end_line() {
    const auto end = rest_.find('\n');
    skip_to(end == kNowhere ? rest_.size() : end + 1);
  }

  void skip_to(std::size_t offset) {
    for (const char c : rest_.substr(0, offset)) line_ += c == '\n' ? 1 : 0;
    rest_.remove_prefix(offset);
  }

  [[noreturn]] void fail(const std::string& problem, std::size_t line) const {
    throw ConfigError(file_ + ":" + std::to_string(line) + ": " + problem);
  }

  std::string_view rest_;
  const std::string& file_;
  std::deque<std::string>& quoted_;
  char separator_ = ',';
  std::size_t line_ = 1;
  std::size_t record_line_ = 1;
  ListColumns columns_;
  std::size_t most_ = 2;                  // fields that a line may have
  std::vector<std::string_view> fields_;  // of the record that was read last
  bool was_quoted_ = false;               // the first field of the record
};

}  // namespace

std::vector<ListRecord> parse_list(std::string_view text, const std::string& file, std::deque<std::string>& quoted) {
  return ListParser(text, file, quoted).parse();
}

}  // namespace forebay

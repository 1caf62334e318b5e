// Parses lists of images: a path per line, perhaps followed by a label after a comma, a tab or a
// blank, perhaps with a header, comments, quotes and Windows line ends. People write such lists by
// hand and with all kinds of tools, so the form is guessed from the whole text and then checked
// line by line.
//
// separator_of() examines all lines first, because paths may contain blanks and commas. Then
// ListParser goes through the text once. Records are views of the text, or of `quoted` for fields
// in quotes, so a list of millions of lines needs no allocation per line.
//
// Anything ambiguous is an error that names the line: if a label were taken for a path, training
// would use wrong labels.

#include "list.hpp"

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "scan.hpp"

namespace forebay::data {
namespace {

constexpr std::string_view kBlank = " \t";
constexpr const char* kOnePath =
    "a line is one path and its label. For a mask beside each image, name the columns in a first line (image,mask) and "
    "give [fields.mask]";

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == kNowhere;
}

// Calls on_line(line) for each line that is neither empty nor a comment. A line break within quotes
// does not end a line; in a comment, quotes have no meaning.
template <typename OnLine>
void for_each_line(std::string_view text, OnLine&& on_line) {
  while (!text.empty()) {
    std::size_t end = 0;
    const bool is_comment = without_blanks(text.substr(0, text.find('\n'))).starts_with('#');
    for (bool quoted = false; end < text.size() && (quoted || text[end] != '\n'); ++end) {
      quoted = quoted != (text[end] == '"' && !is_comment);
    }
    const auto line = without_blanks(text.substr(0, end));
    if (!line.empty() && !is_comment) on_line(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The first line that is neither empty nor a comment; "" if there is none.
std::string_view first_line_of(std::string_view text) {
  while (!text.empty()) {
    const auto line = without_blanks(take_line(text));
    if (!line.empty() && line.front() != '#') return line;
  }
  return {};
}

bool has_unquoted(std::string_view line, char wanted) {
  bool quoted = false;
  return std::any_of(line.begin(), line.end(), [&](char c) {
    quoted = quoted != (c == '"');
    return c == wanted && !quoted;
  });
}

// Whether the line's only comma belongs to the name of an image: "a,b.jpg" or "a,b.jpg 0". If the
// part before the comma is the name of an image itself, the comma separates two fields.
bool has_comma_in_name(std::string_view line) noexcept {
  const auto comma = line.find(',');
  if (comma == kNowhere || line.find('"') != kNowhere || is_picture_name(line.substr(0, comma))) return false;
  const std::string_view behind = without_blanks(line.substr(comma + 1));
  return behind.find(',') == kNowhere && (is_picture_name(behind) || label_after_path(behind) != kNowhere) &&
         is_picture_name(behind.substr(0, behind.find_first_of(kBlank)));
}

// Where the label begins in a line of one word and an integer; kNowhere for any other line.
// Example: "n01440764/10026 0", a path without an extension.
std::size_t integer_after_word(std::string_view line) noexcept {
  const auto blank = line.find_first_of(kBlank);
  if (blank == kNowhere) return kNowhere;
  const auto label = line.find_first_not_of(kBlank, blank);
  return label != kNowhere && is_integer(line.substr(label)) ? label : kNowhere;
}

// Where the label begins in a line such as "a.jpg label"; kNowhere for any other line, including
// "a.jpg copy.jpg". It begins after the first blank that follows a complete image name, so "my
// dog.jpg 3" is handled.
std::size_t label_after_picture(std::string_view line) noexcept {
  if (is_picture_name(line)) return kNowhere;
  for (auto blank = line.find_first_of(kBlank); blank != kNowhere; blank = line.find_first_of(kBlank, blank + 1)) {
    if (is_picture_name(line.substr(0, blank))) return line.find_first_not_of(kBlank, blank);
  }
  return kNowhere;
}

class ListParser {
 public:
  // Refuses UTF-16 and binary files, which contain NUL bytes, before the first line is parsed.
  ListParser(std::string_view text, const std::string& file, std::deque<std::string>& quoted, const IsFile& is_file)
      : rest_(text), file_(file), quoted_(quoted), is_file_(is_file) {
    if (rest_.starts_with("\xFF\xFE") || rest_.starts_with("\xFE\xFF")) fail("UTF-16 text; convert it to UTF-8", line_);
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    // Read as one line, it would end in a message about its many fields.
    if (rest_.find('\n') == kNowhere && rest_.find('\r') != kNowhere) {
      fail("lines that end with a carriage return alone; give them line feeds: tr '\\r' '\\n'", line_);
    }
    if (rest_.find('\0') != kNowhere) {
      skip_to(rest_.find('\0'));
      fail("a NUL byte; this is not a text file", line_);
    }
  }

  // The first line may be a header; find_header() also needs the line after it to decide.
  std::vector<ListRecord> parse() {
    separator_ = separator_of(rest_);
    if (const std::string problem = problem_of_separator(first_line_of(rest_)); !problem.empty()) {
      throw ConfigError(file_ + ": " + problem);
    }
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
  // Reads the fields of the next record; false at the end. A line that begins with '#' is a
  // comment, unless it begins with the name of an existing image.
  bool read_record() {
    fields_.clear();
    while (!rest_.empty()) {
      const auto line = without_blanks(rest_.substr(0, rest_.find('\n')));
      record_line_ = line_;
      if (line.empty() || (line.front() == '#' && !names_file(line))) {
        end_line();
        continue;
      }
      was_quoted_ = false;
      fields_.push_back(field());
      if (separator_ == ' ') add_label_behind_path();
      while (separator_ != kNoSeparator && rest_.starts_with(separator_)) {
        rest_.remove_prefix(1);
        fields_.push_back(field());
      }
      end_line();
      return true;
    }
    return false;
  }

  // Whether a line that begins with '#' begins with the name of an existing image.
  [[nodiscard]] bool names_file(std::string_view line) const {
    if (!is_file_) return false;
    std::string_view name = line.substr(0, separator_ == kNoSeparator ? line.size() : line.find(separator_));
    if (separator_ == ' ') {
      const auto label = label_after_path(line);
      name = label == kNowhere ? line : line.substr(0, label);
    }
    name = without_blanks(name);
    return is_picture_name(name) && is_file_(name);
  }

  // Refuses lines that belong to another kind of list, such as boxes or sets of labels.
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
    if (record.has_second) record.second = without_blanks(fields[columns_.label]);
    if (is_picture_name(record.second)) {
      fail("the path is \"" + printable(record.first) + "\" and the label \"" + printable(record.second) +
               "\", which looks like a path. Put a name that contains a comma in double quotes; " + kOnePath,
           line);
    }
    if (record.first.empty()) fail(columns_.path == 0 ? "the first field is empty" : "the path is empty", line);
    return record;
  }

  // Reads a field, up to the separator or the end of the line, neither of which is consumed. Blanks
  // around the field are dropped. If blanks separate, an unquoted field is the whole line, which
  // add_label_behind_path() divides.
  std::string_view field() {
    const auto start = rest_.find_first_not_of(separator_ == '\t' ? " " : " \t");
    if (start != kNowhere && rest_[start] == '"') return quoted(start + 1);
    auto end = rest_of_line();
    if (separator_ != ' ' && separator_ != kNoSeparator) end = std::min(end, rest_.substr(0, end).find(separator_));
    const auto text = without_blanks(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  // Divides a line such as "a.jpg 0" into path and label. The first field is still the whole line,
  // unless it is a quoted path.
  void add_label_behind_path() {
    const auto end = rest_of_line();
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
      fail(std::string("two paths in a line; ") + kOnePath, record_line_);
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
    auto end = rest_of_line();
    end = std::min(end, rest_.substr(0, end).find(separator_));
    if (!without_blanks(rest_.substr(0, end)).empty()) fail("text after a closing double quote", line_);
    rest_.remove_prefix(end);
    return quoted_.emplace_back(std::move(text));
  }

  // The number of bytes up to the end of the line. The end is searched for once per line, however
  // many fields the line has.
  std::size_t rest_of_line() {
    if (rest_.data() > line_end_) line_end_ = rest_.data() + std::min(rest_.find('\n'), rest_.size());
    return static_cast<std::size_t>(line_end_ - rest_.data());
  }

  // Skips the rest of the line.
  void end_line() {
    const auto end = rest_.find('\n');
    skip_to(end == kNowhere ? rest_.size() : end + 1);
  }

  // The only function that moves past line ends, so that `line_` stays correct.
  void skip_to(std::size_t offset) {
    for (const char c : rest_.substr(0, offset)) line_ += c == '\n' ? 1 : 0;
    rest_.remove_prefix(offset);
  }

  [[noreturn]] void fail(const std::string& problem, std::size_t line) const {
    throw ConfigError(file_ + ":" + std::to_string(line) + ": " + problem);
  }

  std::string_view rest_;
  const char* line_end_ = nullptr;
  const std::string& file_;
  std::deque<std::string>& quoted_;
  const IsFile& is_file_;
  char separator_ = ',';
  std::size_t line_ = 1;
  std::size_t record_line_ = 1;
  ListColumns columns_;
  std::size_t most_ = 2;                  // the most fields that a line may have
  std::vector<std::string_view> fields_;  // of the last record read
  bool was_quoted_ = false;               // whether the record's first field is quoted
};

}  // namespace

// Accepts more than is_image_name(): the name of an image that Forebay cannot decode is still the
// name of an image.
bool is_picture_name(std::string_view name) noexcept {
  return is_image_name(name) || is_video_name(name) || is_unread_image_name(name);
}

// A tab takes precedence over a comma if every line has one. A blank separates only if there is
// neither, as in "a.jpg 0".
char separator_of(std::string_view text) {
  bool has_comma = false;
  bool has_comma_in_names = false;
  bool has_tab = false;
  bool all_have_tab = true;
  bool has_label_behind_path = false;
  bool all_are_word_and_integer = true;
  for_each_line(text, [&](std::string_view line) {
    const bool is_name = has_comma_in_name(line);
    const bool tab = has_unquoted(line, '\t');
    has_tab = has_tab || tab;
    all_have_tab = all_have_tab && tab;
    has_comma = has_comma || (!is_name && has_unquoted(line, ','));
    has_comma_in_names = has_comma_in_names || is_name;
    has_label_behind_path = has_label_behind_path || line.starts_with('"') || label_after_picture(line) != kNowhere;
    all_are_word_and_integer = all_are_word_and_integer && integer_after_word(line) != kNowhere;
  });
  if (has_tab && (all_have_tab || !has_comma)) return '\t';
  if (has_comma) return ',';
  if (has_label_behind_path || all_are_word_and_integer) return ' ';
  return has_comma_in_names ? kNoSeparator : ',';
}

std::size_t label_after_path(std::string_view line) noexcept {
  const std::size_t label = label_after_picture(line);
  return label != kNowhere || is_picture_name(line) ? label : integer_after_word(line);
}

std::vector<ListRecord> parse_list(std::string_view text, const std::string& file, std::deque<std::string>& quoted,
                                   const IsFile& is_file) {
  return ListParser(text, file, quoted, is_file).parse();
}

}  // namespace forebay::data

#include "list_shape.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "index_scan.hpp"

namespace forebay {
namespace {

constexpr std::string_view kBlank = " \t";

constexpr std::array<std::string_view, 15> kPathWords{"path",       "file",      "filename",  "filepath",  "image",
                                                      "img",        "imagepath", "imagefile", "imagename", "imageid",
                                                      "imageindex", "imgpath",   "imgname",   "fname",     "picture"};
constexpr std::array<std::string_view, 13> kLabelWords{
    "label",      "labels", "class", "classname", "classid",      "classindex",   "category",
    "categoryid", "target", "wnid",  "synset",    "findinglabel", "findinglabels"};
constexpr std::array<std::string_view, 7> kBoxWords{"xmin", "ymin", "xmax", "ymax", "box", "x1", "x2"};

// "Image Index" and "image_index" as "imageindex".
std::string word_of(std::string_view field) {
  std::string word;
  for (const char c : field) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return word;
}

bool is_one_of(std::string_view field, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word_of(field)) != words.end();
}

std::vector<std::size_t> columns_named(std::span<const std::string_view> fields,
                                       std::span<const std::string_view> words) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_one_of(fields[i], words)) columns.push_back(i);
  }
  return columns;
}

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == kNowhere;
}

// Calls on_line(line) for each line that is no comment; quoted line breaks do not end one.
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

bool has_unquoted(std::string_view line, char wanted) {
  bool quoted = false;
  return std::any_of(line.begin(), line.end(), [&](char c) {
    quoted = quoted != (c == '"');
    return c == wanted && !quoted;
  });
}

// Where the label begins in one word and an integer; kNowhere in any other line.
std::size_t integer_after_word(std::string_view line) noexcept {
  const auto blank = line.find_first_of(kBlank);
  if (blank == kNowhere) return kNowhere;
  const auto label = line.find_first_not_of(kBlank, blank);
  return label != kNowhere && is_integer(line.substr(label)) ? label : kNowhere;
}

// Where the label begins in "a.jpg label"; kNowhere in any other line, "a.jpg copy.jpg" included.
std::size_t label_after_picture(std::string_view line) noexcept {
  if (is_picture_name(line)) return kNowhere;
  for (auto blank = line.find_first_of(kBlank); blank != kNowhere; blank = line.find_first_of(kBlank, blank + 1)) {
    if (is_picture_name(line.substr(0, blank))) return line.find_first_not_of(kBlank, blank);
  }
  return kNowhere;
}

std::string in_quotes(std::span<const std::string_view> fields) {
  constexpr std::size_t kNamed = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(fields.size(), kNamed); ++i) {
    text.append(i == 0 ? "\"" : ", \"").append(fields[i]).append("\"");
  }
  return fields.size() > kNamed ? text + ", ..." : text;
}

}  // namespace

std::string_view without_blanks(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t\r");
  return first == kNowhere ? std::string_view{} : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_picture_name(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> kOther{"png", "bmp", "gif", "webp", "tif", "tiff", "ppm", "jp2"};
  if (is_image_name(name)) return true;
  const auto dot = name.rfind('.');
  if (dot == kNowhere) return false;
  const auto extension = name.substr(dot + 1);
  return std::any_of(kOther.begin(), kOther.end(), [&](std::string_view other) {
    return std::equal(extension.begin(), extension.end(), other.begin(), other.end(), [](char given, char expected) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(given))) == expected;
    });
  });
}

char separator_of(std::string_view text) {
  bool has_comma = false;
  bool has_tab = false;
  bool all_have_tab = true;
  bool has_label_behind_path = false;
  bool all_are_word_and_integer = true;
  for_each_line(text, [&](std::string_view line) {
    const bool tab = has_unquoted(line, '\t');
    has_tab = has_tab || tab;
    all_have_tab = all_have_tab && tab;
    has_comma = has_comma || has_unquoted(line, ',');
    has_label_behind_path = has_label_behind_path || line.starts_with('"') || label_after_picture(line) != kNowhere;
    all_are_word_and_integer = all_are_word_and_integer && integer_after_word(line) != kNowhere;
  });
  if (has_tab && (all_have_tab || !has_comma)) return '\t';
  return !has_comma && (has_label_behind_path || all_are_word_and_integer) ? ' ' : ',';
}

std::size_t label_after_path(std::string_view line) noexcept {
  const std::size_t label = label_after_picture(line);
  return label != kNowhere || is_picture_name(line) ? label : integer_after_word(line);
}

std::optional<HeaderFound> find_header(std::span<const std::string_view> fields, std::string_view next) {
  const std::vector<std::size_t> paths = columns_named(fields, kPathWords);
  const std::vector<std::size_t> labels = columns_named(fields, kLabelWords);
  const auto is_entry = [](std::string_view field) { return is_picture_name(field) || field.find('/') != kNowhere; };
  if (std::any_of(fields.begin(), fields.end(), is_entry)) return std::nullopt;
  const bool names_both = paths.size() == 1 && labels.size() == 1;
  const bool stands_above_a_path = is_picture_name(next) && (fields.size() > 1 || !paths.empty());
  if (!names_both && !stands_above_a_path && fields.size() < 3) return std::nullopt;
  HeaderFound found;
  if (names_both) found.columns = {.path = paths.front(), .label = labels.front()};
  const bool has_boxes = std::any_of(fields.begin(), fields.end(), [](std::string_view field) {
    return word_of(field).starts_with("bbox") || is_one_of(field, kBoxWords);
  });
  if (has_boxes) {
    found.problem = "boxes of objects; lists have whole images only: give boxes as VOC XML files";
  } else if (fields.size() > 2 && !names_both) {
    found.problem =
        "which column is the label is not clear; keep a column of paths (\"path\") and one of labels (\"label\"). Sets "
        "of "
        "labels are not supported: one class per image";
  }
  if (!found.problem.empty()) found.problem = "the columns are " + in_quotes(fields) + ": " + found.problem;
  return found;
}

}  // namespace forebay

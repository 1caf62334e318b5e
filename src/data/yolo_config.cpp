// Reads the data.yaml of a YOLO dataset: where its images are, the names of classes, and the shape
// of keypoints.
//
// This is not a complete YAML parser. It supports what data.yaml files have: keys at the left edge,
// each with a value in one line, a list or a map in either style; quoted texts; comments.
// Everything else (anchors, tags, texts over several lines, escapes) is refused with its line,
// because misreading it would select other images or classes. Keys that do not matter are skipped,
// whatever their values are, by indentation or brackets.
//
// There is one pass over the lines: `at_` is the next line, `begin_` that of the current key.

#include "yolo_config.hpp"

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "scan.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

// Chosen.
constexpr std::size_t kLargestYaml = std::size_t{1} << 20U;
constexpr std::size_t kMostYamlNames = 65536;
constexpr std::array<std::string_view, 4> kSplits{"train", "val", "test", "minival"};

// The value of a key: a text, a list of texts, or texts by key.
struct YamlValue {
  std::size_t line = 0;
  bool is_list = false;
  bool is_map = false;
  std::vector<std::string> keys;   // of a map
  std::vector<std::string> texts;  // one if it is neither

  [[nodiscard]] bool is_empty() const noexcept { return texts.empty() || (!is_list && !is_map && texts[0].empty()); }
};

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& file) : file_(file) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    while (!text.empty()) {
      std::string_view line = take_line(text);
      if (line.ends_with('\r')) line.remove_suffix(1);
      lines_.push_back(line);
    }
  }

  // Finds the next key at the left edge; false at the end. Skips what belongs to the previous key,
  // including a list that begins at the left edge, as YAML allows: "names:" with "- cat" below it.
  bool next(std::string& key) {
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view line = lines_[at_];
      if (is_blank(line) || line.starts_with("---") || line.starts_with('%')) continue;
      if (line.starts_with("...")) return false;
      const bool belongs = line.starts_with(' ') || line.starts_with('\t') || line == "-" || line.starts_with("- ");
      if (belongs && has_key_) continue;
      std::string_view rest = line;
      const auto found = take_key(rest);
      if (!found) refuse(at_, "is no \"key: value\"");
      key = *found;
      rest_ = rest;
      has_key_ = true;
      begin_ = at_++;
      // In brackets, the values of other keys may have lines that look like keys.
      if (rest.starts_with('[') || rest.starts_with('{')) (void)bracketed();
      return true;
    }
    return false;
  }

  // The value of the key that next() found. It is not called for keys that do not matter, so their
  // values may be anything.
  YamlValue value() {
    YamlValue value;
    value.line = begin_ + 1;
    const std::string_view rest = without_comment(rest_);
    if (rest.empty()) {
      read_block(value);
    } else if (rest.starts_with('[') || rest.starts_with('{')) {
      at_ = begin_ + 1;
      read_flow(bracketed(), value);
    } else {
      if (at_ < lines_.size() && !is_blank(lines_[at_]) && lines_[at_].starts_with(' ')) {
        refuse(at_, "continues a value; write the value in one line");
      }
      value.texts.push_back(scalar(rest, begin_));
    }
    return value;
  }

  [[noreturn]] void refuse(std::size_t line, const std::string& problem) const {
    throw ConfigError(file_ + ":" + std::to_string(line + 1) + ": " + problem);
  }

 private:
  static bool is_blank(std::string_view line) {
    const std::string_view text = without_blanks(line);
    return text.empty() || text.starts_with('#');
  }

  // The text before a '#' that begins a comment. In YAML it does so only outside quotes and after a
  // blank: "a#b" is a text.
  static std::string_view without_comment(std::string_view text) {
    char quote = '\0';
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != '\0') {
        if (quote == '"' && c == '\\') ++i;
        if (c == quote) quote = '\0';
      } else if ((c == '"' || c == '\'') && (i == 0 || std::string_view(" [{,:").find(text[i - 1]) != kNone)) {
        quote = c;
      } else if (c == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
        return without_blanks(text.substr(0, i));
      }
    }
    return without_blanks(text);
  }

  // Takes "key:" from the front of a text, plain or quoted. A colon ends a key only before a blank
  // or the end of the line, so "C:/data" is not a key.
  static std::optional<std::string> take_key(std::string_view& text) {
    const bool is_quoted = text.starts_with('"') || text.starts_with('\'');
    const auto closed = is_quoted ? text.find(text.front(), 1) : 0;
    if (closed == kNone) return std::nullopt;
    auto colon = text.find(':', closed);
    while (!is_quoted && colon != kNone && colon + 1 < text.size() && text[colon + 1] != ' ' &&
           text[colon + 1] != '\t') {
      colon = text.find(':', colon + 1);
    }
    if (colon == kNone || colon == 0) return std::nullopt;
    const std::string_view before = without_blanks(text.substr(0, colon));
    std::string key(is_quoted ? before.substr(1, closed - 1) : before);
    text = without_blanks(text.substr(colon + 1));
    return key;
  }

  // The text of a plain or quoted value. Refuses what has another meaning in YAML: special
  // characters at the beginning, and ": " within a text, which would make a map.
  [[nodiscard]] std::string scalar(std::string_view text, std::size_t line) const {
    if (text.starts_with('\'') || text.starts_with('"')) return quoted(text, line);
    if (text.find_first_of("&*!|>%@`[]{}") == 0 || text == "-" || text.starts_with("- ") || text.starts_with("? ")) {
      refuse(line,
             "\"" + std::string(text) + "\": of YAML only plain and quoted texts and lists of them are read here");
    }
    if (text.find(": ") != kNone || text.ends_with(':')) {
      refuse(line, "\"" + std::string(text) + "\" has a colon; put it in quotes if that belongs to it");
    }
    if (text == "null" || text == "~" || text == "Null" || text == "NULL") return {};
    return std::string(text);
  }

  // In single quotes, '' is a quote; in double quotes, a backslash begins an escape.
  [[nodiscard]] std::string quoted(std::string_view text, std::size_t line) const {
    const char quote = text.front();
    std::string value;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == quote && quote == '\'' && i + 1 < text.size() && text[i + 1] == quote) {
        value += text[i++];
      } else if (text[i] == quote) {
        if (!without_blanks(text.substr(i + 1)).empty()) break;
        return value;
      } else if (text[i] == '\\' && quote == '"') {
        ++i;
        if (i == text.size() || std::string_view("\\\"/").find(text[i]) == kNone) {
          refuse(line, R"(of the escapes of YAML only \\, \" and \/ are read)");
        }
        value += text[i];
      } else {
        value += text[i];
      }
    }
    refuse(line, "a text in quotes does not end where its value ends");
  }

  // The value from its opening bracket to the one that closes it. It may span several lines, which
  // are joined by blanks. Brackets within quotes do not count.
  std::string bracketed() {
    std::string all;
    std::size_t open = 0;
    for (std::size_t line = begin_;; ++line) {
      if (line == lines_.size()) refuse(begin_, "a bracket that is never closed");
      const std::string_view text = without_comment(line == begin_ ? rest_ : lines_[line]);
      char quote = '\0';
      for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quote != '\0') {
          if (quote == '"' && c == '\\') ++i;
          if (c == quote) quote = '\0';
        } else if (c == '"' || (c == '\'' && (i == 0 || std::string_view(" [{,:").find(text[i - 1]) != kNone))) {
          quote = c;
        } else if (c == '[' || c == '{') {
          ++open;
        } else if (c == ']' || c == '}') {
          if (--open > 0) continue;
          if (i + 1 != text.size()) refuse(line, "text after the closing bracket");
          at_ = line + 1;
          return all.append(text);
        }
      }
      if (quote != '\0') refuse(line, "a text in quotes is not closed in its line");
      all.append(text).append(" ");
    }
  }

  void read_flow(std::string_view text, YamlValue& value) const {
    value.is_list = text.starts_with('[');
    value.is_map = !value.is_list;
    text.remove_prefix(1);
    text.remove_suffix(1);
    while (!without_blanks(text).empty()) {
      std::string_view item = take_item(text);
      if (item.empty() && without_blanks(text).empty()) break;  // a comma after the last item
      if (value.is_map) {
        const auto key = take_key(item);
        if (!key) refuse(begin_, "\"" + std::string(item) + R"(" is no "number: name")");
        value.keys.push_back(*key);
      }
      value.texts.push_back(scalar(item, begin_));
    }
  }

  // Takes the text before the next comma outside quotes.
  static std::string_view take_item(std::string_view& text) {
    char quote = '\0';
    bool has_begun = false;
    std::size_t end = 0;
    for (; end < text.size(); ++end) {
      const char c = text[end];
      if (quote != '\0') {
        if (quote == '"' && c == '\\') ++end;
        if (c == quote) quote = '\0';
      } else if ((c == '"' || c == '\'') && (!has_begun || (end > 0 && text[end - 1] == ' '))) {
        quote = c;
      } else if (c == ',') {
        break;
      }
      has_begun = has_begun || c != ' ';
    }
    end = std::min(end, text.size());
    const std::string_view item = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return item;
  }

  // Reads lines of "- text" or "number: text", all with the same indentation. Only one level is
  // supported, because no value in data.yaml has two.
  void read_block(YamlValue& value) {
    std::size_t indent = 0;
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view line = lines_[at_];
      if (is_blank(line)) continue;
      const std::size_t begin = line.find_first_not_of(' ');
      std::string_view item = line.substr(begin);
      if (item.starts_with('\t')) refuse(at_, "is indented by a tab; YAML has blanks there");
      const bool is_item = item == "-" || item.starts_with("- ");
      if (begin == 0 && !is_item) break;
      if (value.texts.empty()) {
        indent = begin;
        value.is_list = is_item;
        value.is_map = !is_item;
      }
      if (begin != indent || is_item != value.is_list) {
        refuse(at_, "is not indented like the lines above it, or not of their kind");
      }
      if (is_item) {
        item.remove_prefix(1);
      } else {
        const auto key = take_key(item);
        if (!key) refuse(at_, "is no \"number: name\"");
        value.keys.push_back(*key);
      }
      value.texts.push_back(scalar(without_comment(without_blanks(item)), at_));
    }
    if (value.texts.empty()) value.texts.emplace_back();
  }

  static constexpr auto kNone = std::string_view::npos;

  const std::string& file_;
  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;     // the next line
  std::size_t begin_ = 0;  // the line of the current key
  std::string_view rest_;  // the rest of that line, after the key
  bool has_key_ = false;
};

std::size_t whole_number(const YamlReader& reader, const YamlValue& value, std::string_view text, std::size_t most) {
  const auto number = parse_number<std::size_t>(text);
  if (!number || *number > most) {
    reader.refuse(value.line - 1, "\"" + std::string(text) + "\" is no whole number from 0 to " + std::to_string(most));
  }
  return *number;
}

// The class names: a list in order, or a map from numbers to names, 0: cat, 1: dog. The numbers
// must have no gap, because labels would otherwise belong to classes without names.
std::vector<std::string> names_of_classes(const YamlReader& reader, const YamlValue& value) {
  if (!value.is_list && !value.is_map) reader.refuse(value.line - 1, "names: write a list, [cat, dog]");
  const std::size_t count = value.texts.size();
  if (value.is_list) return value.texts;
  std::vector<std::string> names(count);
  std::vector<bool> given(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = whole_number(reader, value, value.keys[i], kMostYamlNames);
    if (number >= count || given[number]) {
      reader.refuse(value.line - 1, "names: " + std::to_string(count) + " classes have the numbers 0 to " +
                                        std::to_string(count - 1) + ", each once, and one here is " +
                                        std::to_string(number) + (number < count ? " again" : ""));
    }
    given[number] = true;
    names[number] = value.texts[i];
  }
  return names;
}

}  // namespace

const YoloConfig::Split* YoloConfig::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(splits, name, &Split::name);
  return found == splits.end() ? nullptr : &*found;
}

// Without "names", "nc" names the classes class_0, class_1, ... as ultralytics does. Duplicate keys
// are refused: YAML forbids them, and readers differ in which one they use.
YoloConfig parse_yolo_config(std::string_view text, const std::string& file) {
  YoloConfig config;
  YamlReader reader(text, file);
  std::optional<std::size_t> count;
  std::size_t line_of_names = 0;
  std::vector<std::string> seen;
  for (std::string key; reader.next(key);) {
    if (key == "validation") key = "val";
    const bool is_split = std::ranges::find(kSplits, key) != kSplits.end();
    if (!is_split && key != "path" && key != "names" && key != "nc" && key != "kpt_shape") continue;
    const YamlValue value = reader.value();
    const auto refuse = [&](const std::string& problem) { reader.refuse(value.line - 1, problem); };
    if (std::ranges::find(seen, key) != seen.end()) refuse("\"" + key + "\" is given a second time");
    seen.push_back(key);
    if (value.is_empty()) continue;
    if (is_split) {
      if (value.is_map) refuse(key + ": write a folder, a list file or a list of them");
      config.splits.push_back({key, value.texts});
    } else if (key == "names") {
      config.names = names_of_classes(reader, value);
      config.has_names = true;
      line_of_names = value.line - 1;
    } else if (key == "kpt_shape") {
      if (!value.is_list || value.texts.size() != 2) refuse("kpt_shape: write two numbers, [17, 3]");
      config.keypoint_numbers =
          whole_number(reader, value, value.texts[0], 10000) * whole_number(reader, value, value.texts[1], 3);
    } else {
      if (value.is_list || value.is_map) refuse(key + ": write one value");
      if (key == "path") {
        config.path = value.texts[0];
      } else {
        count = whole_number(reader, value, value.texts[0], kMostYamlNames);
      }
    }
  }
  if (config.has_names && count && config.names.size() != *count) {
    reader.refuse(line_of_names, std::to_string(config.names.size()) + " names, but nc = " + std::to_string(*count));
  }
  for (std::size_t i = config.names.size(); !config.has_names && i < count.value_or(0); ++i) {
    config.names.push_back("class_" + std::to_string(i));
  }
  return config;
}

YoloConfig read_yolo_config(const std::string& file) {
  std::vector<std::byte> bytes;
  try {
    bytes = store::load_file(file, kLargestYaml);
  } catch (const SampleError& error) {
    throw ConfigError(file + ": " + error.what());
  }
  return parse_yolo_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

// Looks only for keys at the left edge, which is quick, because it is called for every YAML file in
// a folder.
bool is_yolo_config(const std::string& file) {
  try {
    const auto bytes = store::load_file(file, kLargestYaml);
    const std::string text = "\n" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto has = [&](std::string_view key) {
      return text.find("\n" + std::string(key) + ":") != std::string::npos;
    };
    return (has("names") || has("nc")) && (std::ranges::any_of(kSplits, has) || has("validation"));
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(file, error);
    return false;
  }
}

bool is_yaml_name(std::string_view path) noexcept { return path.ends_with(".yaml") || path.ends_with(".yml"); }

PartOfFile part_of_yaml(const std::string& path) {
  const auto colon = path.rfind(':');
  if (colon == std::string::npos || !is_yaml_name(std::string_view(path).substr(0, colon))) return {path, ""};
  return {path.substr(0, colon), path.substr(colon + 1)};
}

}  // namespace forebay::data

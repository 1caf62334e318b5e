// From the text of a configuration to a TOML table, with errors that say file, line and column. The
// parser recurses once per level, and a hostile or broken file could exhaust the stack, so a scan
// counts brackets and parts of keys first. It needs to tell strings and comments from the rest, and
// nothing more.

#include "document.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <sstream>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "data/file_nature.hpp"

namespace forebay::config {
namespace {

// A list of classes may be long; nothing else in a configuration is.
constexpr std::size_t kLargestFile = std::size_t{4} << 20U;

// In a configuration keys have two parts and lists contain values.
constexpr int kMostParts = 16;     // of a dotted key
constexpr int kMostBrackets = 16;  // nested in each other

// Scans a text just closely enough to tell keys and brackets from strings and comments.
class Scan {
 public:
  explicit Scan(std::string_view text) noexcept : text_(text) {}

  // The first place with more parts or brackets, if there is one.
  std::optional<toml::source_position> run() noexcept {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        pass_string(c);
        continue;
      }
      if (c == '#') {
        pass_comment();
        continue;
      }
      if (is_too_deep(c)) return place();
      ++at_;
    }
    return std::nullopt;
  }

 private:
  // Any character that cannot be part of a key ends it.
  bool is_too_deep(char c) noexcept {
    switch (c) {
      case '.': return ++dots_ >= kMostParts;
      case '[':
      case '{': dots_ = 0; return ++brackets_ > kMostBrackets;
      case ']':
      case '}':
        dots_ = 0;
        brackets_ -= brackets_ > 0 ? 1 : 0;
        return false;
      case '=':
      case ',':
      case '\n': dots_ = 0; return false;
      default: return false;
    }
  }

  [[nodiscard]] bool starts_here(std::string_view what) const noexcept { return text_.substr(at_).starts_with(what); }

  // A one-line string ends with its line, closed or not: otherwise a stray quote would hide what follows.
  void pass_string(char quote) noexcept {
    const std::string_view three = quote == '"' ? R"(""")" : "'''";
    const bool is_long = starts_here(three);
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (is_long ? starts_here(three) : text_[at_] == quote) {
        at_ += is_long ? 3 : 1;
        if (is_long) pass_last_quotes(quote);
        return;
      }
      if (!is_long && text_[at_] == '\n') return;
      at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    }
  }
  // A long string may end in one or two quotes of its own: """a"""" is a".
  void pass_last_quotes(char quote) noexcept {
    for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
  }
  void pass_comment() noexcept {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  [[nodiscard]] toml::source_position place() const noexcept {
    toml::source_position place{1, 1};
    for (const char c : text_.substr(0, at_)) {
      if (c == '\n') {
        ++place.line;
        place.column = 0;
      }
      ++place.column;
    }
    return place;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int dots_ = 0;
  int brackets_ = 0;
};

}  // namespace

std::string place(std::string_view origin, const toml::source_position& position) {
  std::ostringstream text;
  text << origin << ':' << position.line << ':' << position.column;
  return text.str();
}

// A file that is something else (a pointer of Git LFS, a page of HTML) is named as what it is.
std::string read_file(const std::filesystem::path& file) {
  try {
    std::string text = read_text_file(file, kLargestFile);
    const std::string nature = data::nature_of(std::as_bytes(std::span(text)));
    if (!nature.empty()) throw Error("is " + nature);
    return text;
  } catch (const Error& error) {
    std::error_code unknown;
    const bool is_data = std::filesystem::is_directory(file, unknown);
    throw ConfigError(
        "the configuration " + file.string() + " " + error.what() +
        (is_data ? "; to feed what it holds, write dataset.path = \"" + file.string() + "\" into a file" : ""));
  }
}

toml::table parse_document(std::string_view text, std::string_view origin) {
  if (const auto deep = Scan(text).run()) {
    throw ConfigError(place(origin, *deep) + ": nested too deep: a key is section.key, and a list holds values");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const std::string cause(error.description());
    // The commonest mistake is text without quotes, for which the parser's words are obscure.
    const bool is_bare = cause.find("could not determine value type") != std::string::npos;
    throw ConfigError(place(origin, error.source().begin) + ": " + cause + (is_bare ? " (text needs quotes)" : ""));
  }
}

bool is_nested_too_deep(std::string_view text) noexcept { return Scan(text).run().has_value(); }

}  // namespace forebay::config

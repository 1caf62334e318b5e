#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include <toml++/toml.h>

#include "assign.hpp"
#include "base/text_file.hpp"
#include "nesting.hpp"
#include "schema.hpp"
#include "suggest.hpp"
#include "validate.hpp"

namespace forebay {
namespace config {
namespace {

std::string place(std::string_view origin, const toml::source_position& position) {
  std::ostringstream text;
  text << origin << ':' << position.line << ':' << position.column;
  return text.str();
}

// Reads a document and then overrides, and remembers where each value came from.
class Reader {
 public:
  explicit Reader(Options defaults) : options_(std::move(defaults)) {}

  void read_document(std::string_view toml, std::string_view origin) {
    origin_ = origin;
    const toml::table document = parse(toml);
    for (const auto& [name, node] : document) {
      if (find_section(name.str()) != nullptr) {
        read_section(name, node);
      } else if (node.is_table() && find_key("", name.str()) == nullptr) {
        throw ConfigError(place(origin_, name.source().begin) + ": " + unknown_section(name.str()));
      } else {
        read_key("", name, node);
      }
    }
  }

  void read_override(const std::string& text) {
    const std::string where = "--set " + text;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw ConfigError(where + ": expected section.key=value");
    const Key& key = key_at(trimmed(std::string_view(text).substr(0, equals)), where);
    const std::string value(trimmed(std::string_view(text).substr(equals + 1)));
    const toml::table parsed = parse_override(key, value);
    assign(key, *parsed.get("value"), where);
  }

  // The options, checked; a problem is reported where its value was written.
  [[nodiscard]] Options finish() && {
    if (const auto problem = find_problem(options_)) {
      const auto written = places_.find(problem->key);
      throw ConfigError((written == places_.end() ? origin_ : written->second) + ": " + problem->message);
    }
    return std::move(options_);
  }

 private:
  [[nodiscard]] toml::table parse(std::string_view toml) const {
    if (const auto deep = find_deep_nesting(toml)) {
      throw ConfigError(origin_ + ":" + std::to_string(deep->line) + ":" + std::to_string(deep->column) +
                        ": nested too deep: a key is section.key, and a list holds values");
    }
    try {
      return toml::parse(toml);
    } catch (const toml::parse_error& error) {
      const std::string cause(error.description());
      const bool is_bare = cause.find("could not determine value type") != std::string::npos;
      throw ConfigError(place(origin_, error.source().begin) + ": " + cause + (is_bare ? " (text needs quotes)" : ""));
    }
  }

  // The key that "section.key" names.
  [[nodiscard]] static const Key& key_at(std::string_view path, const std::string& where) {
    const std::size_t dot = path.find('.');
    const bool is_nested = dot != std::string_view::npos;
    const std::string_view section = is_nested ? path.substr(0, dot) : "";
    const std::string_view name = is_nested ? path.substr(dot + 1) : path;
    if (is_nested && find_section(section) == nullptr) throw ConfigError(where + ": " + unknown_section(section));
    if (!is_nested && find_section(name) != nullptr) {
      throw ConfigError(where + ": " + std::string(name) + " is a section: name a key of it, section.key=value");
    }
    const Key* key = find_key(section, name);
    if (key == nullptr) throw ConfigError(where + ": " + unknown_key(section, name));
    return *key;
  }

  // A value on a command line has lost its quotes to the shell: what is no TOML value is taken as text, and so is
  // everything for a key that wants text (a folder may be called 2024).
  [[nodiscard]] static toml::table parse_override(const Key& key, const std::string& value) {
    if (find_deep_nesting(value)) return toml::table{{"value", value}};
    try {
      toml::table parsed = toml::parse("value = " + value);
      const bool is_single = parsed.size() == 1;
      if (is_single && (parsed.get("value")->is_string() || !std::holds_alternative<Text>(key.kind))) return parsed;
    } catch (const toml::parse_error&) {  // NOLINT(bugprone-empty-catch): see above
    }
    return toml::table{{"value", value}};
  }

  [[nodiscard]] static std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
  }

  void read_section(const toml::key& section, const toml::node& node) {
    const auto* table = node.as_table();
    if (table == nullptr) {
      const std::string name(section.str());
      throw ConfigError(place(origin_, section.source().begin) + ": " + name + " is a section, written [" + name +
                        "] once, with its keys on the lines below it");
    }
    for (const auto& [name, value] : *table) read_key(section.str(), name, value);
  }

  void read_key(std::string_view section, const toml::key& name, const toml::node& node) {
    const Key* key = find_key(section, name.str());
    if (key == nullptr) {
      throw ConfigError(place(origin_, name.source().begin) + ": " + unknown_key(section, name.str()));
    }
    assign(*key, node, place(origin_, node.source().begin));
  }

  void assign(const Key& key, const toml::node& node, const std::string& where) {
    if (!config::assign(key.kind, node, options_)) {
      throw ConfigError(where + ": " + full_name(key) + ": expected " + expectation(key.kind) + ", found " +
                        description(node));
    }
    places_.insert_or_assign(full_name(key), where);
  }

  Options options_;
  std::string origin_;
  std::map<std::string, std::string> places_;  // full name of a key -> where its value was written
};

// A list of classes may be long; nothing else in a configuration is.
constexpr std::size_t kLargestFile = std::size_t{4} << 20U;

std::string read_file(const std::filesystem::path& file) {
  try {
    return read_text_file(file, kLargestFile);
  } catch (const Error& error) {
    throw ConfigError("the configuration " + file.string() + " " + error.what());
  }
}

}  // namespace
}  // namespace config

Options parse_options(std::string_view toml, std::string_view origin, std::span<const std::string> overrides,
                      const Options& defaults) {
  config::Reader reader(defaults);
  reader.read_document(toml, origin);
  for (const std::string& text : overrides) reader.read_override(text);
  return std::move(reader).finish();
}

Options load_options(const std::filesystem::path& file, std::span<const std::string> overrides,
                     const Options& defaults) {
  return parse_options(config::read_file(file), file.string(), overrides, defaults);
}

}  // namespace forebay

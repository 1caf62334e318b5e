// Reads a configuration: the document, then overrides of the command line, each key through the
// schema, which says where a value goes and what kind it is. Each value's place is remembered, so
// that a problem that shows later, such as two keys that contradict each other, is reported where
// the value was written. Unknown keys and sections are errors with a suggestion. One Reader per
// configuration; no state beyond it.

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "base/text.hpp"
#include "document.hpp"
#include "schema.hpp"
#include "values.hpp"

namespace forebay {
namespace config {
namespace {

// A whole number is fine where a real one is expected: 1 for 1.0.
std::optional<double> real(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
  if (const auto* number = node.as_floating_point()) return number->get();
  return std::nullopt;
}

std::optional<std::int64_t> whole(const toml::node& node) { return node.value_exact<std::int64_t>(); }

template <typename T>
std::optional<T> element(const toml::node& node) {
  if constexpr (std::is_same_v<T, std::string>) return node.value_exact<std::string>();
  if constexpr (std::is_same_v<T, std::int64_t>) return whole(node);
  if constexpr (std::is_same_v<T, double>) return real(node);
}

// Puts a TOML value into the options; false, changing nothing, if it is not of that kind. Ranges are not checked here:
// find_problem() does that for every source of options.
class Assign {
 public:
  Assign(const toml::node& node, Options& options) : node_(node), options_(options) {}

  bool operator()(const Flag& flag) const { return put(flag.field, node_.value_exact<bool>()); }
  bool operator()(const Integer& integer) const { return put(integer.field, whole(node_)); }
  bool operator()(const Real& number) const { return put(number.field, real(node_)); }
  bool operator()(const Text& text) const { return put(text.field, node_.value_exact<std::string>()); }

  // As text too, because TOML's integers have 63 bits and a seed has 64.
  bool operator()(const Seed& seed) const {
    if (const auto number = whole(node_); number && *number >= 0) {
      seed.field.in(options_) = static_cast<std::uint64_t>(*number);
      return true;
    }
    const auto digits = node_.value_exact<std::string>();
    return digits && put(seed.field, parse_number<std::uint64_t>(*digits));
  }

  bool operator()(const Bytes& bytes) const {
    if (const auto text = node_.value_exact<std::string>()) return put(bytes.field, parse_size(*text));
    return put(bytes.field, whole(node_));
  }

  bool operator()(const Automatic& count) const {
    if (node_.value_exact<std::string>() == "auto") return put(count.field, std::optional(count.automatic));
    const auto number = whole(node_);
    return number != count.automatic && put(count.field, number);  // that is said by "auto" alone
  }

  template <typename T, std::size_t N>
  bool operator()(const Tuple<T, N>& tuple) const {
    const auto* array = node_.as_array();
    if (array == nullptr || array->size() != N) return false;
    std::array<T, N> values{};
    return elements(*array, values.begin()) && put(tuple.field, std::optional(values));
  }

  bool operator()(const RealList& list) const { return put_list(list.field); }
  bool operator()(const WholeList& list) const { return put_list(list.field); }
  bool operator()(const TextList& list) const { return put_list(list.field); }

  bool operator()(const Choice& choice) const {
    const auto name = node_.value_exact<std::string>();
    if (!name) return false;
    const auto at = std::ranges::find(choice.names, *name);
    if (at == choice.names.end()) return false;
    choice.set(options_, static_cast<std::size_t>(at - choice.names.begin()));
    return true;
  }

  bool operator()(const Budget& budget) const {
    if (const auto count = whole(node_)) return put(budget.field, std::optional<BadBudget>(*count));
    if (const auto share = real(node_)) return put(budget.field, std::optional<BadBudget>(*share));
    if (node_.value_exact<std::string>() == "auto")
      return put(budget.field, std::optional<BadBudget>(AutomaticBudget{}));
    return false;
  }

 private:
  template <typename T>
  [[nodiscard]] bool put_list(const Place<std::vector<T>>& field) const {
    const auto* array = node_.as_array();
    if (array == nullptr) return false;
    std::vector<T> values(array->size());
    return elements(*array, values.begin()) && put(field, std::optional(std::move(values)));
  }
  template <typename T>
  [[nodiscard]] bool put(const Place<T>& field, std::optional<T> value) const {
    if (value) field.in(options_) = std::move(*value);
    return value.has_value();
  }

  template <typename Iterator>
  static bool elements(const toml::array& array, Iterator out) {
    for (const toml::node& node : array) {
      auto value = element<std::iter_value_t<Iterator>>(node);
      if (!value) return false;
      *out++ = std::move(*value);
    }
    return true;
  }

  const toml::node& node_;
  Options& options_;
};

// What was found where something else was expected: `"four" (string)`.
std::string description(const toml::node& node) {
  constexpr std::size_t kMostShown = 60;
  if (node.is_table()) return "a section";
  std::ostringstream text;
  text << toml::toml_formatter(node, toml::format_flags::none);
  if (!node.is_array()) {
    text << " (" << node.type() << ")";
  } else if (text.str().size() > kMostShown) {
    return "an array of " + std::to_string(node.as_array()->size()) + " values";
  }
  return text.str();
}

// Reads a document and then overrides, and remembers where each value came from.
class Reader {
 public:
  explicit Reader(Options defaults) : options_(std::move(defaults)) {}

  void read_document(std::string_view toml, std::string_view origin) {
    origin_ = origin;
    const toml::table document = parse_document(toml, origin);
    for (const auto& [name, node] : document) {
      if (name.str() == kFields) {
        read_fields(name, node);
      } else if (find_section(name.str()) != nullptr) {
        read_section(name, node);
      } else if (node.is_table() && find_key("", name.str()) == nullptr) {
        throw ConfigError(place(origin_, name.source().begin) + ": " + unknown_section(name.str()));
      } else {
        read_key("", name, node);
      }
    }
  }

  void read_override(const std::string& text) {
    const std::string where = "--set " + printable(text);
    // A configuration, a state and the pages about a run are UTF-8, and hold what was set.
    if (valid_utf8(text) != text) throw ConfigError(where + ": this is not UTF-8");
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw ConfigError(where + ": expected section.key=value");
    const std::string_view path = without_blanks(std::string_view(text).substr(0, equals));
    const std::string value(without_blanks(std::string_view(text).substr(equals + 1)));
    const bool is_field = path.starts_with(kFields) && path.substr(kFields.size()).starts_with('.');
    const std::size_t dot = path.rfind('.');
    const Key key = is_field ? field_key(path.substr(0, dot), path.substr(dot + 1), where) : key_at(path, where);
    const toml::table parsed = parse_override(key, value);
    assign(key, *parsed.get("value"), where);
  }

  // The options, checked; a problem is reported where its value was written.
  [[nodiscard]] Options finish() && {
    // Sorted, so that the order does not depend on where each was written.
    std::ranges::sort(options_.dataset.fields, {}, &FieldOptions::name);
    if (const auto problem = find_problem(options_)) {
      const auto written = places_.find(problem->key);
      throw ConfigError((written == places_.end() ? origin_ : written->second) + ": " + problem->message);
    }
    return std::move(options_);
  }

 private:
  static constexpr std::string_view kFields = "fields";

  // Every [fields.NAME].
  void read_fields(const toml::key& fields, const toml::node& node) {
    const auto wrong = [&](const toml::key& at) {
      return ConfigError(place(origin_, at.source().begin) +
                         ": a field has a section of its own, written [fields.NAME], with its keys on the lines below");
    };
    if (!node.is_table()) throw wrong(fields);
    for (const auto& [name, section] : *node.as_table()) {
      if (!section.is_table()) throw wrong(name);
      const std::string full = full_name(kFields, name.str());
      select_field(options_, name.str());
      for (const auto& [key, value] : *section.as_table()) {
        const std::string where = place(origin_, value.source().begin);
        assign(field_key(full, key.str(), where), value, where);
      }
    }
  }

  // A key of "fields.mask", which is then the last field.
  [[nodiscard]] Key field_key(std::string_view section, std::string_view name, const std::string& where) {
    const Key* const found = find_field_key(name);
    if (found == nullptr || section.size() <= kFields.size() + 1) {
      throw ConfigError(where + ": unknown key " + full_name(section, name) + ": the keys of [fields.NAME] are " +
                        joined(field_keys(), ", ", &Key::name));
    }
    select_field(options_, section.substr(kFields.size() + 1));
    Key key = *found;
    key.section = section;
    return key;
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

  // A value on a command line has lost its quotes to the shell: what is not a TOML value is taken as text, and so is
  // everything for a key that expects text (a folder may be called 2024).
  // The three ways out: a TOML value, text because the key wants text, text because it is no TOML.
  [[nodiscard]] static toml::table parse_override(const Key& key, const std::string& value) {
    if (is_nested_too_deep(value)) return toml::table{{"value", value}};
    try {
      toml::table parsed = toml::parse("value = " + value);
      const bool is_single = parsed.size() == 1;
      if (is_single && (parsed.get("value")->is_string() || !std::holds_alternative<Text>(key.kind))) return parsed;
    } catch (const toml::parse_error&) {  // NOLINT(bugprone-empty-catch): see above
    }
    return toml::table{{"value", value}};
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
    if (!std::visit(Assign(node, options_), key.kind)) {
      throw ConfigError(where + ": " + full_name(key) + ": expected " + expectation(key.kind) + ", found " +
                        description(node));
    }
    places_.insert_or_assign(full_name(key), where);
  }

  Options options_;
  std::string origin_;
  std::map<std::string, std::string> places_;  // full name of a key -> where its value was written
};

}  // namespace
}  // namespace config

Options parse_options(std::string_view toml, std::string_view origin, std::span<const std::string> overrides,
                      const Options& defaults) {
  config::Reader reader(defaults);
  reader.read_document(toml, origin);
  for (const std::string& text : overrides) reader.read_override(text);
  return std::move(reader).finish();
}

Options load_options(const std::string& file, std::span<const std::string> overrides, const Options& defaults) {
  return parse_options(config::read_file(file), file, overrides, defaults);
}

}  // namespace forebay

// Values as text: as TOML for written files, as words for messages ("a whole number from 1 to
// 4096"), and sizes with units in both directions. A value that is written reads back as the same
// value, bit by bit; tests write and read all of them.

#include "values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <forebay/config.hpp>

namespace forebay::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

// The larger first.
// Both kinds of prefixes, since a store's sizes are in powers of ten and memory's in powers of two.
constexpr std::array<Unit, 11> kUnits{{{"TiB", std::int64_t{1} << 40},
                                       {"TB", 1'000'000'000'000},
                                       {"GiB", std::int64_t{1} << 30},
                                       {"GB", 1'000'000'000},
                                       {"MiB", std::int64_t{1} << 20},
                                       {"MB", 1'000'000},
                                       {"KiB", std::int64_t{1} << 10},
                                       {"kB", 1'000},
                                       {"KB", 1'000},
                                       {"B", 1},
                                       {"", 1}}};

// The bytes in the largest unit that divides them exactly: "256MiB", "64MB"; "" if only the byte does.
std::string exact_size(std::int64_t bytes) {
  if (bytes <= 0) return "";
  for (const Unit& unit : kUnits) {
    if (unit.bytes == 1) break;
    if (bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  }
  return "";
}

// A TOML basic string.
// Control characters as \u escapes; UTF-8 as it is.
std::string in_quotes(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return to_text(value); }
std::string text_of(const std::string& value) { return in_quotes(value); }

template <typename Items>
std::string array_text(const Items& items) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

// TOML's integers end at 2^63 - 1.
std::string seed_text(std::uint64_t seed) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return seed <= kMost ? std::to_string(seed) : in_quotes(std::to_string(seed));
}

std::string size_text(std::int64_t bytes) {
  const std::string size = exact_size(bytes);
  return size.empty() ? std::to_string(bytes) : in_quotes(size);
}

void append_line(std::string& out, const std::string& text, std::string_view comment) {
  constexpr std::size_t kCommentColumn = 33;
  out += text;
  if (!comment.empty()) {
    out.append(text.size() + 2 <= kCommentColumn ? kCommentColumn - text.size() : 2, ' ');
    out.append("# ").append(comment);
  }
  out += '\n';
}

// Writes long numbers as powers of 2 or 10, to spare the reader counting digits.
std::string number(std::int64_t value) {
  constexpr std::int64_t kLongPowerOf2 = 100'000;
  constexpr std::int64_t kLongPowerOf10 = 10'000'000;
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= kLongPowerOf2 && std::has_single_bit(bits)) return "2^" + std::to_string(std::countr_zero(bits));
  std::string digits = std::to_string(value);
  if (value < kLongPowerOf10 || digits[0] != '1' || digits.find_first_not_of('0', 1) != std::string::npos)
    return digits;
  return "10^" + std::to_string(digits.size() - 1);
}

// Limits are whole numbers or small decimals.
std::string number(double value) {
  const auto rounded = static_cast<std::int64_t>(value);
  return static_cast<double>(rounded) == value ? number(rounded) : to_text(value);
}

template <typename T>
std::string bounds(const Range<T>& range) {
  if constexpr (std::is_floating_point_v<T>) {
    if (range.high == std::numeric_limits<double>::infinity()) return "of " + number(range.low) + " or more, or inf";
  }
  if (range.above_low) return "above " + number(range.low) + " and up to " + number(range.high);
  return "from " + number(range.low) + " to " + number(range.high);
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text = "one of";
  for (const auto name : names) text += (name == names.front() ? " \"" : ", \"") + std::string(name) + "\"";
  return text;
}

template <std::size_t N>
std::string tuple_of(const char* what, const std::string& range) {
  return "an array of " + std::to_string(N) + " " + what + " " + range;
}

}  // namespace

std::string expectation(const Kind& kind) {
  return std::visit(
      Overloaded{
          [](const Flag&) { return std::string("true or false"); },
          [](const Seed&) { return std::string("a whole number from 0 to 2^64 - 1 (as a string from 2^63 on)"); },
          [](const Integer& integer) { return "a whole number " + bounds(integer.range); },
          [](const Bytes& bytes) {
            return "a number of bytes " + bounds(bytes.range) + R"(, or text such as "256MiB" or "64MB")";
          },
          [](const Automatic& count) { return "\"auto\" or a whole number " + bounds(count.range); },
          [](const Real& real) { return "a number " + bounds(real.range); },
          [](const Tuple<std::int64_t, 2>& pair) { return tuple_of<2>("whole numbers", bounds(pair.range)); },
          [](const Tuple<double, 2>& pair) { return tuple_of<2>("numbers", bounds(pair.range)); },
          [](const Tuple<double, 3>& triple) { return tuple_of<3>("numbers", bounds(triple.range)); },
          [](const RealList& list) { return "an array of numbers " + bounds(list.range) + ", such as [0.9, 0.1]"; },
          [](const Text& text) { return text.choices.empty() ? std::string("a string") : one_of(text.choices); },
          [](const WholeList& list) { return "an array of whole numbers " + bounds(list.range); },
          [](const TextList&) { return std::string(R"(an array of strings such as ["cat", "dog"])"); },
          [](const Choice& options) { return one_of(options.names); },
          [](const Budget&) {
            return std::string("\"auto\", a share from 0.0 to 1.0, or a count as a whole number of 0 or more");
          },
      },
      kind);
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / unit.bytes) return std::nullopt;
    return number * unit.bytes;
  }
  return std::nullopt;
}

// The shortest text that reads back as the same number, with a point, or TOML would read an
// integer.
std::string to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::vector<std::pair<const Key*, std::string>> field_values(const FieldOptions& field) {
  Options written;
  Options plain;
  written.dataset.fields = {field};
  plain.dataset.fields = {FieldOptions{.name = field.name}};
  std::vector<std::pair<const Key*, std::string>> values;
  for (const Key& key : field_keys()) {
    std::string value = value_text(key, written);
    if (value != value_text(key, plain)) values.emplace_back(&key, std::move(value));
  }
  return values;
}

void append_field(std::string& out, const FieldOptions& field) {
  append_line(out, "\n[fields." + field.name + "]", "");
  for (const auto& [key, value] : field_values(field)) {
    append_line(out, std::string(key->name) + " = " + value, key->help);
  }
}

std::string value_text(const Key& key, const Options& options) {
  return std::visit(
      Overloaded{
          [&](const Flag& flag) { return std::string(flag.field.get(options) ? "true" : "false"); },
          [&](const Seed& seed) { return seed_text(seed.field.get(options)); },
          [&](const Integer& integer) { return text_of(integer.field.get(options)); },
          [&](const Bytes& bytes) { return size_text(bytes.field.get(options)); },
          [&](const Automatic& count) {
            const auto number = count.field.get(options);
            return number == count.automatic ? in_quotes("auto") : text_of(number);
          },
          [&](const Real& real) { return text_of(real.field.get(options)); },
          [&]<typename T, std::size_t N>(const Tuple<T, N>& tuple) { return array_text(tuple.field.get(options)); },
          [&](const Text& text) { return in_quotes(text.field.get(options)); },
          [&](const TextList& list) { return array_text(list.field.get(options)); },
          [&](const WholeList& list) { return array_text(list.field.get(options)); },
          [&](const RealList& list) { return array_text(list.field.get(options)); },
          [&](const Choice& choice) {
            const std::size_t place = choice.get(options);
            return place < choice.names.size() ? in_quotes(choice.names[place]) : std::to_string(place);
          },
          [&](const Budget& budget) {
            return std::visit(Overloaded{[](AutomaticBudget) { return in_quotes("auto"); },
                                         [](auto number) { return text_of(number); }},
                              budget.field.get(options));
          },
      },
      key.kind);
}

}  // namespace forebay::config

namespace forebay {

std::vector<ConfigKey> config_keys() {
  const Options defaults;
  std::vector<ConfigKey> all;
  for (const config::Key& key : config::keys()) {
    all.push_back({.section = std::string(key.section),
                   .name = std::string(key.name),
                   .expected = config::expectation(key.kind),
                   .default_value = config::value_text(key, defaults),
                   .help = std::string(key.help)});
  }
  return all;
}

}  // namespace forebay

namespace forebay::config {

measure::Settings settings_of(const Options& options) {
  measure::Settings settings;
  for (const config::Key& key : config::keys()) {
    settings.emplace_back(config::full_name(key), config::value_text(key, options));
  }
  for (const FieldOptions& field : options.dataset.fields) {
    for (auto& [key, value] : config::field_values(field)) {
      settings.emplace_back(config::full_name("fields." + field.name, key->name), std::move(value));
    }
  }
  return settings;
}

}  // namespace forebay::config

namespace forebay {

std::string to_toml(const Options& options) {
  std::string out;
  std::string_view section;
  for (const config::Key& key : config::keys()) {
    if (key.section != section) {
      section = key.section;
      out += '\n';
      config::append_line(out, "[" + std::string(section) + "]", config::find_section(section)->help);
    }
    config::append_line(out, std::string(key.name) + " = " + config::value_text(key, options), key.help);
  }
  for (const FieldOptions& field : options.dataset.fields) config::append_field(out, field);
  return out;
}

}  // namespace forebay

// Text functions: escaping what a terminal or a log would misinterpret, UTF-8 one character at a
// time, base64, numbers. File names are bytes and may contain anything, escape sequences included,
// so every name goes through printable() on its way into a message. Pure functions.

#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>

namespace forebay {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Characters that reorder those around them, so that one name could look like another.
bool is_bidirectional(std::uint32_t code) noexcept {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

bool is_control(std::uint32_t code) noexcept {
  const bool is_separator = code == 0x2028 || code == 0x2029;  // of lines and paragraphs
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || is_separator || is_bidirectional(code);
}

void append_escaped(std::string& out, std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    out += "\\x";
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 0x0FU];
  }
}

enum class Controls { kept, escaped, escaped_but_line_feeds };

bool is_escaped(std::uint32_t code, Controls controls) noexcept {
  if (controls == Controls::kept || (code == '\n' && controls == Controls::escaped_but_line_feeds)) return false;
  return is_control(code);
}

std::string escaped(std::string_view text, Controls controls) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::string_view bytes = text.substr(0, next.length == 0 ? 1 : next.length);
    if (next.length == 0 || is_escaped(next.code, controls)) {
      append_escaped(out, bytes);
    } else {
      out += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace

// Refuses overlong forms, surrogates and anything past U+10FFFF (The Unicode Standard, table 3-7).
Character first_character(std::string_view text) noexcept {
  static constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<std::uint8_t>(text.front());
  if (lead < 0x80) return {1, lead};
  std::size_t length = 0;
  std::uint32_t code = 0;
  if ((lead & 0xE0U) == 0xC0U) {
    length = 2;
    code = lead & 0x1FU;
  } else if ((lead & 0xF0U) == 0xE0U) {
    length = 3;
    code = lead & 0x0FU;
  } else if ((lead & 0xF8U) == 0xF0U) {
    length = 4;
    code = lead & 0x07U;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0U) != 0x80U) return {};
    code = (code << 6U) | (byte & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return {};
  return {length, code};
}

std::string valid_utf8(std::string_view text) { return escaped(text, Controls::kept); }

std::string printable(std::string_view text) { return escaped(text, Controls::escaped); }

std::string printable_lines(std::string_view text) { return escaped(text, Controls::escaped_but_line_feeds); }

std::string hex(std::uint64_t value, std::size_t digits) {
  std::array<char, 16> text{};
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  const auto length = static_cast<std::size_t>(end - text.data());
  return std::string(digits > length ? digits - length : 0, '0') + std::string(text.data(), length);
}

// The fewest digits that read back as the same number; 32 characters hold any double.
std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string base64(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  unsigned have = 0;  // bits not yet written
  for (const char byte : bytes) {
    bits = bits << 8U | static_cast<std::uint8_t>(byte);
    for (have += 8; have >= 6;) text += kBase64[bits >> (have -= 6) & 63U];
  }
  if (have > 0) text += kBase64[bits << (6 - have) & 63U];
  return text.append((4 - text.size() % 4) % 4, '=');
}

// Left-over bits at the end are ignored.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned have = 0;
  for (const char digit : text) {
    const auto value = kBase64.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    have += 6;
    if (have >= 8) bytes += static_cast<char>(bits >> (have -= 8) & 0xFFU);
  }
  return bytes;
}

std::string cause_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "no memory left";
  return error.what();
}

// Of longer texts the exponent alone does not tell.
bool is_tiny(std::string_view number) noexcept {
  constexpr std::size_t kLongest = 64;
  if (number.size() > kLongest) return false;
  const auto exponent = number.find_first_of("eE");
  return exponent != std::string_view::npos && number.substr(exponent + 1).starts_with('-');
}

std::string_view without_blanks(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char divider) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = std::min(text.find(divider), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

std::string in_seconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

std::string mebibytes(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1024 * 1024);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), mib < 10 ? "%.1f MiB" : "%.0f MiB", mib);
  return text.data();
}

std::string quoted_names(std::span<const std::string_view> names, std::size_t most) {
  const auto quoted = [](std::string_view name) { return "\"" + printable(name) + "\""; };
  return joined(names.first(std::min(most, names.size())), ", ", quoted) + (names.size() > most ? ", ..." : "");
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

bool equals_ignoring_case(std::string_view text, std::string_view lower_case) noexcept {
  return std::ranges::equal(text, lower_case, [](char given, char expected) {
    return (given >= 'A' && given <= 'Z' ? given + 32 : given) == expected;
  });
}

std::string_view take_line(std::string_view& text) noexcept {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string_view clip(std::string_view text, std::size_t columns) noexcept {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<std::uint8_t>(text[i]) & 0xC0U) != 0x80U;
    if (starts_character && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace forebay

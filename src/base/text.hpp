#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace forebay {

// `text` with every byte that is not part of well-formed UTF-8 replaced by the four characters \xNN. File names may
// contain arbitrary bytes; JSON may not.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// The same, with control characters as \xNN too: a file name must not move the cursor of a terminal. Names and contents
// of files go through this before they reach a terminal or a log line.
[[nodiscard]] std::string printable(std::string_view text);

// The same, but line feeds stay: for whole messages, which may have several lines.
[[nodiscard]] std::string printable_lines(std::string_view text);

// The character at the start of `text`, if it is well-formed UTF-8. REQUIRES: text is not empty.
struct Character {
  std::size_t length = 0;  // bytes; 0: not well-formed here
  std::uint32_t code = 0;
};
[[nodiscard]] Character first_character(std::string_view text) noexcept;

// The number in lower-case hexadecimal, with at least `digits` digits: hex(10, 2) is "0a".
[[nodiscard]] std::string hex(std::uint64_t value, std::size_t digits);

// The shortest text that reads back as exactly this number, such as "0.1".
[[nodiscard]] std::string shortest(double value);

// The bytes in base64 (RFC 4648, section 4), and back; nothing if the text is not base64.
[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

// The text of an error, also for std::bad_alloc, where the C++ library's is not in plain words; that case allocates
// nothing.
[[nodiscard]] std::string cause_of(const std::exception& error);

// `text` without the blanks at both ends: spaces, tabs, line ends, \v and \f.
[[nodiscard]] std::string_view without_blanks(std::string_view text) noexcept;

// Of a number that no floating-point type holds: whether it is too small, and not too large.
[[nodiscard]] bool is_tiny(std::string_view number) noexcept;

// The number that the whole of `text` represents, as read by std::from_chars: no blanks, no plus sign, independent of
// the locale. What is nearer to 0 than any floating-point number, "1e-330", is 0, as for other programs.
template <typename Number, typename... Base>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Base... base) noexcept {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range && is_tiny(text)) return Number{0};
  }
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The parts of `text` between dividers, one more than there are dividers; they may be empty.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char divider);

// The items, converted by `text`, with the separator in between. Numbers are written out.
template <typename Items, typename Text = std::identity>
[[nodiscard]] std::string joined(Items&& items, std::string_view separator, Text&& text = {}) {
  std::string all;
  for (bool is_first = true; const auto& item : items) {
    if (!is_first) all += separator;
    is_first = false;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(std::invoke(text, item))>>) {
      all += std::to_string(std::invoke(text, item));
    } else {
      all += std::invoke(text, item);
    }
  }
  return all;
}

// "1 core", "2 cores". `noun`: the singular of a noun whose plural takes an s.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

// "4.2 s".
[[nodiscard]] std::string in_seconds(double seconds);

// "154 MiB", rounded; "0.3 MiB" below ten.
[[nodiscard]] std::string mebibytes(std::uint64_t bytes);

// The first `most` names in double quotes, followed by ", ..." if there are more.
[[nodiscard]] std::string quoted_names(std::span<const std::string_view> names, std::size_t most);

// `text` with ASCII capitals in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

// Whether the texts are equal, ignoring ASCII case. REQUIRES: `lower_case` has no capitals.
[[nodiscard]] bool equals_ignoring_case(std::string_view text, std::string_view lower_case) noexcept;

// The same bytes.
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Removes the first line from `text` and returns it without its line feed.
[[nodiscard]] std::string_view take_line(std::string_view& text) noexcept;

// `text` (well-formed UTF-8) cut to at most `columns` characters, each counted as one column.
[[nodiscard]] std::string_view clip(std::string_view text, std::size_t columns) noexcept;

}  // namespace forebay

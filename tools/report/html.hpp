#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::report::html {

// Escapes text for HTML, so that nothing read from a file becomes markup. Control characters and
// bytes that are not UTF-8 become \xNN.
[[nodiscard]] std::string text(std::string_view plain);

// A line of Markdown, as in docs/telemetry.md, as HTML: backticks become code, links become their
// text.
[[nodiscard]] std::string markdown(std::string_view line);

// "33.1 %", "0 %".
[[nodiscard]] std::string percent(double share);
// Four significant digits, thousands grouped: "1,234", "0.01234".
[[nodiscard]] std::string number(double value);
// "0.5 s", "12 min", "3.4 h". The unit follows from `span_s`, so that all labels of an axis have
// the same one.
[[nodiscard]] std::string duration(double s, double span_s);
[[nodiscard]] inline std::string duration(double s) { return duration(s, s); }

// A table that scrolls with the keyboard if it is wider than the page. The caption is text; the
// cells are HTML, the first one of each row its heading.
struct Table {
  std::string caption;
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};
  bool is_text = false;  // cells are words: aligned to the left
};
[[nodiscard]] std::string table(const Table& table);

// Content that is hidden until the reader opens it. `summary` is text, `body` HTML.
[[nodiscard]] std::string folded(std::string_view summary, std::string_view body);

// A definition list of names and values, both HTML.
[[nodiscard]] std::string facts(std::span<const std::pair<std::string, std::string>> facts);

}  // namespace forebay::report::html

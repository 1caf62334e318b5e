#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::report::html {

// Text as HTML: what files say must not become markup. Bytes that are not UTF-8 and control characters as \xNN.
[[nodiscard]] std::string text(std::string_view plain);

// A line of Markdown as docs/telemetry.md has it: code between backticks; links become their words.
[[nodiscard]] std::string markdown(std::string_view line);

// "33.1 %", "0 %".
[[nodiscard]] std::string percent(double share);
// Four significant digits, thousands grouped: "1,234", "0.01234".
[[nodiscard]] std::string number(double value);
// "0.5 s", "12 min", "3.4 h": of a time within a span of `span_s`, so that labels of one axis have one unit.
[[nodiscard]] std::string duration(double s, double span_s);
[[nodiscard]] inline std::string duration(double s) { return duration(s, s); }

// A table that can be scrolled by keyboard where it is wider than the page. Its caption is text, its cells are HTML;
// the first of a row is its head.
struct Table {
  std::string caption;
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};
  bool is_text = false;  // cells are words: aligned to the left
};
[[nodiscard]] std::string table(const Table& table);

// What is folded away until it is asked for. `summary` is text, `body` HTML.
[[nodiscard]] std::string folded(std::string_view summary, std::string_view body);

// A definition list of names and values, both HTML.
[[nodiscard]] std::string facts(std::span<const std::pair<std::string, std::string>> facts);

}  // namespace forebay::report::html

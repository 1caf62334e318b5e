// Figures as text: a record as one line of JSON, a number as a phrase, and a summary as lines for
// people. All names and words come from the tables in figures.cpp. Functions without state; steps
// and intervals are written by the telemetry thread.

#include "figures.hpp"

#include <cmath>
#include <iterator>

#include <spdlog/fmt/fmt.h>

namespace forebay::measure {
namespace {

// Clocks never give infinities; this only keeps a broken figure from breaking the file.
double finite(double value) noexcept { return std::isfinite(value) ? value : 0; }

void append_value(std::string& out, std::string_view unit, int digits_of_seconds, double value) {
  if (unit == "s") {
    fmt::format_to(std::back_inserter(out), "{:.{}f}", finite(value), digits_of_seconds);
  } else {
    fmt::format_to(std::back_inserter(out), "{:.6g}", finite(value));
  }
}

void append_value(std::string& out, std::string_view /*unit*/, int /*digits*/, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) {
    fmt::format_to(std::back_inserter(out), "{:.6g}", *value);
  } else {
    out += "null";
  }
}

void append_value(std::string& out, std::string_view /*unit*/, int /*digits*/, Decision value) {
  out.append("\"").append(to_string(value)).append("\"");
}

void append_value(std::string& out, std::string_view /*unit*/, int /*digits*/, bool value) {
  out += value ? "true" : "false";
}

void append_value(std::string& out, std::string_view /*unit*/, int /*digits*/, std::uint64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void append_value(std::string& out, std::string_view unit, int digits, std::uint32_t value) {
  append_value(out, unit, digits, std::uint64_t{value});
}

// " sample[s]" becomes " sample" for one and " samples" otherwise.
std::string inflected(std::string_view text, bool is_one) {
  std::string out;
  bool in_brackets = false;
  for (const char c : text) {
    if (c == '[' || c == ']') {
      in_brackets = c == '[';
    } else if (!in_brackets || !is_one) {
      out += c;
    }
  }
  return out;
}

}  // namespace

template <typename Record>
void append_json_line(std::string& out, Figures<Record> figures, const Record& record, int digits_of_seconds) {
  char separator = '{';
  for (const Figure<Record>& figure : figures) {
    out.append(1, separator).append(1, '"').append(figure.key).append("\":");
    visit_value(figure, record, [&](const auto& value) { append_value(out, figure.unit, digits_of_seconds, value); });
    separator = ',';
  }
  out += "}\n";
}
template void append_json_line(std::string&, Figures<StepRecord>, const StepRecord&, int);
template void append_json_line(std::string&, Figures<Interval>, const Interval&, int);

// A figure marked if_any is left out if it would be printed as 0, which depends on its digits.
void append_phrase(std::string& out, const Phrase& phrase, std::optional<double> number) {
  if (!number) {
    if (!phrase.if_any) out.append(phrase.format.substr(0, phrase.format.find('{'))).append("-");
    return;
  }
  const std::string format = inflected(phrase.format, *number == 1);
  const std::string text = fmt::format(fmt::runtime(format), *number * phrase.scale);
  if (!phrase.if_any || text != fmt::format(fmt::runtime(format), 0.0)) out += text;
}

// One line per label, in the order of the table. A phrase that is left out takes its separator
// along.
std::string summary_text(const Summary& summary) {
  constexpr std::size_t kLabel = 10;
  std::string text;
  std::string line;
  std::string_view label;
  const auto end_line = [&] {
    // The first phrase may have been left out.
    const std::size_t begin = line.find_first_not_of(",; ");
    if (begin != std::string::npos) text += fmt::format("{:<{}}{}\n", label, kLabel, line.substr(begin));
    line.clear();
  };
  for (const Figure<Summary>& figure : summary_figures()) {
    if (figure.text.line.empty()) continue;
    if (figure.text.line != label) end_line();
    label = figure.text.line;
    append_phrase(line, figure.text, number_of(figure, summary));
  }
  end_line();
  return text;
}

}  // namespace forebay::measure

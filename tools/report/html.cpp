#include "html.hpp"

#include <cmath>

#include <spdlog/fmt/fmt.h>

#include "base/text.hpp"

namespace forebay::report::html {

// Names of runs, keys and hosts come from files of unknown origin, so every text must pass through
// here before it goes into a page.
std::string text(std::string_view plain) {
  std::string out;
  for (const char c : printable(plain)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// Handles only the Markdown that descriptions of figures use: code, and links, of which only the
// text is kept.
std::string markdown(std::string_view line) {
  std::string out;
  bool in_code = false;
  for (const char c : text(line)) {
    if (c == '`') {
      in_code = !in_code;
      out += in_code ? "<code>" : "</code>";
    } else {
      out += c;
    }
  }
  for (std::size_t middle = out.find("]("); middle != std::string::npos; middle = out.find("](")) {
    const std::size_t open = out.rfind('[', middle);
    const std::size_t close = out.find(')', middle);
    if (open == std::string::npos || close == std::string::npos) break;
    out.replace(open, close + 1 - open, out.substr(open + 1, middle - open - 1));
  }
  return out;
}

std::string percent(double share) {
  const double percent = 100 * share;
  return percent == 0 || percent >= 99.95 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1f} %", percent);
}

// Four digits, and groups of three from 1,000 on.
std::string number(double value) {
  if (std::abs(value) < 1000) {
    const double rounded = std::round(value);
    return std::abs(value - rounded) < 5e-4 ? fmt::format("{:.0f}", rounded) : fmt::format("{:.4g}", value);
  }
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return (value < 0 ? "-" : "") + digits;
}

std::string duration(double s, double span_s) {
  constexpr double kMinutes = 180;
  constexpr double kHours = 3 * 3600;
  if (span_s >= kHours) return fmt::format("{:.3g} h", s / 3600);
  if (span_s >= kMinutes) return fmt::format("{:.3g} min", s / 60);
  return fmt::format("{:.3g} s", s);
}

// tabindex makes wide tables scrollable with the keyboard.
std::string table(const Table& table) {
  const std::string caption = text(table.caption);
  std::string out = "<div class='wide' tabindex='0' role='region' aria-label='" + caption + "'><table" +
                    (table.is_text ? " class='words'" : "") + "><caption>" + caption + "</caption>\n<thead><tr>";
  for (const std::string& cell : table.head) out += "<th scope='col'>" + cell + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? "<th scope='row'>" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string folded(std::string_view summary, std::string_view body) {
  return "<details><summary>" + text(summary) + "</summary>\n" + std::string(body) + "</details>\n";
}

std::string facts(std::span<const std::pair<std::string, std::string>> facts) {
  std::string out = "<dl class='facts'>\n";
  for (const auto& [name, value] : facts) {
    out.append("<div><dt>").append(name).append("</dt><dd>").append(value).append("</dd></div>\n");
  }
  return out + "</dl>\n";
}

}  // namespace forebay::report::html

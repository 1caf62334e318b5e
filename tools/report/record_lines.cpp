// Reads the members of a telemetry line that a report needs, without building a tree, because there
// may be gigabytes of lines.
//
// Telemetry writes members in the order of its table of figures and without blanks. So the expected
// member is first compared byte by byte with its usual spelling (next_as_written). Any other valid
// JSON is read by next(), more slowly, with the same result.

#include "record_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/text.hpp"

namespace forebay::report {
namespace {

constexpr std::size_t kShown = 40;  // characters of a bad value shown in an error

// Iterates over the members of one JSON object. Checks only as much of the syntax as is needed to
// find the members; values are checked when they are read.
class Members {
 public:
  explicit Members(std::string_view line) : at_(line.data()), end_(at_ + line.size()) {}

  // The next member. False at the end of the object, or at a syntax error: then is_sound() is
  // false.
  bool next(std::string_view& key, std::string_view& value) {
    skip_blanks();
    if (!take(is_first_ ? '{' : ',')) {
      is_sound_ = !is_first_ && take('}') && at_end();
      return false;
    }
    skip_blanks();
    if (is_first_ && take('}')) {
      is_sound_ = at_end();
      return false;
    }
    is_first_ = false;
    const std::string_view quoted = string();
    skip_blanks();
    if (quoted.empty() || !take(':')) return false;
    key = quoted.substr(1, quoted.size() - 2);
    skip_blanks();
    value = any_value();
    return !value.empty();
  }

  // The next member, if it is the expected one in telemetry's own spelling: `quoted` is its key in
  // quotes with the colon, its value is a number or a bare word, and there are no blanks. Otherwise
  // false, and next() must read it.
  bool next_as_written(std::string_view quoted, std::string_view& value) noexcept {
    const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
    if (rest.size() < quoted.size() + 2 || rest[0] != (is_first_ ? '{' : ',')) return false;
    if (std::memcmp(rest.data() + 1, quoted.data(), quoted.size()) != 0) return false;
    const char* const begin = at_ + 1 + quoted.size();
    const char* to = begin;
    while (to != end_ && *to != ',' && *to != '}') ++to;
    value = {begin, static_cast<std::size_t>(to - begin)};
    if (value.empty() || is_special(value.front()) || value.back() == ' ') return false;
    at_ = to;
    is_first_ = false;
    return true;
  }

  [[nodiscard]] bool is_sound() const noexcept { return is_sound_; }

 private:
  static bool is_special(char c) noexcept { return c == '"' || c == '[' || c == '{' || c == ' ' || c == '\t'; }
  bool take(char c) noexcept {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() noexcept {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool at_end() noexcept {
    skip_blanks();
    return at_ == end_;
  }

  // A string with its quotes; "" if it does not end. Escapes are skipped, not decoded: no key or
  // word of telemetry has any.
  std::string_view string() noexcept {
    const char* const begin = at_;
    if (!take('"')) return {};
    for (; at_ != end_; ++at_) {
      if (*at_ == '\\' && at_ + 1 != end_) {
        ++at_;
      } else if (*at_ == '"') {
        ++at_;
        return {begin, static_cast<std::size_t>(at_ - begin)};
      }
    }
    return {};
  }

  // A value as text. Of lists and objects only brackets and strings are looked at.
  std::string_view any_value() noexcept {
    if (at_ != end_ && *at_ == '"') return string();
    const char* const begin = at_;
    int depth = 0;
    for (; at_ != end_; ++at_) {
      const char c = *at_;
      if (c == '"') {
        if (string().empty()) return {};
        --at_;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ']' || c == '}') && depth > 0) {
        --depth;
      } else if (depth == 0 && (c == ',' || c == '}' || c == ' ')) {
        break;
      }
    }
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }

  const char* at_;
  const char* end_;
  bool is_first_ = true;
  bool is_sound_ = false;
};

template <typename Number>
bool read_number(std::string_view text, Number& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_value(std::string_view text, std::uint64_t& value) noexcept { return read_number(text, value); }
bool read_value(std::string_view text, std::uint32_t& value) noexcept { return read_number(text, value); }
// from_chars accepts "inf" and "nan", which JSON does not have.
bool read_value(std::string_view text, double& value) noexcept {
  return read_number(text, value) && std::isfinite(value);
}
bool read_value(std::string_view text, std::optional<double>& value) noexcept {
  value.reset();
  return text == "null" || read_value(text, value.emplace());
}
bool read_value(std::string_view text, bool& value) noexcept {
  value = text == "true";
  return value || text == "false";
}
bool read_value(std::string_view text, Decision& value) noexcept {
  value = text == "\"fresh\"" ? Decision::fresh : Decision::reuse;
  return value == Decision::fresh || text == "\"reuse\"";
}

}  // namespace

template <typename Record>
LineReader<Record>::LineReader(measure::Figures<Record> figures, std::span<const std::string_view> wanted)
    : figures_(figures) {
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    quoted_.push_back("\"" + std::string(figures_[i].key) + "\":");
    if (std::ranges::find(wanted, figures_[i].key) != wanted.end()) wanted_ |= std::uint64_t{1} << i;
  }
}

// Unknown keys are skipped: newer versions may write more figures.
template <typename Record>
std::string LineReader<Record>::read(std::string_view line, Record& record) const {
  std::uint64_t missing = wanted_;
  std::string_view value;
  Members members(line);
  // Keys normally follow the order of the table, so the one after the previous is tried first.
  for (std::size_t expected = 0;;) {
    std::size_t place = expected;
    if (place == figures_.size() || !members.next_as_written(quoted_[place], value)) {
      std::string_view key;
      if (!members.next(key, value)) break;
      place =
          static_cast<std::size_t>(std::ranges::find(figures_, key, &measure::Figure<Record>::key) - figures_.begin());
    }
    if (place == figures_.size()) continue;
    expected = place + 1;
    const std::uint64_t bit = std::uint64_t{1} << place;
    if ((wanted_ & bit) == 0) continue;
    missing &= ~bit;
    const bool is_read = measure::visit_value(figures_[place], record, [&](auto& to) { return read_value(value, to); });
    if (!is_read) {
      return "\"" + std::string(figures_[place].key) + "\" cannot be " + printable(value.substr(0, kShown));
    }
  }
  if (!members.is_sound()) return "it is not an object of JSON";
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    if ((missing >> i & 1U) != 0) return "it has no \"" + std::string(figures_[i].key) + "\"";
  }
  return {};
}

template class LineReader<measure::StepRecord>;
template class LineReader<measure::Interval>;

}  // namespace forebay::report

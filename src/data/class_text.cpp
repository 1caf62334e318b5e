// Labels as texts: what a single text may be (a class number, a fraction, a set, a word for a
// missing value), and of what kind all labels of a dataset are (LabelCensus).
//
// A single label does not tell whether "7" is a class number or a name, nor whether "n/a" is a
// mistake. The census counts labels by kind and keeps the first of each kind with its line. Then
// are_numbers() decides: class numbers if nearly all labels are, names if at most half of them are
// numbers, and otherwise an error that shows the first offending label. Lists, tables, arrays and
// containers all use it, so that the same labels have the same meaning in each.

#include "class_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::data {
namespace {

bool is_real(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size() && !std::isnan(value);
}

// Whether the text looks like a number: "0.73", "1e-3", "-5.5", and with thousands separators in
// any style, "1,000".
bool is_number_like(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (is_real(text)) return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         text.find_first_not_of("0123456789,.'") == std::string_view::npos &&
         text.find_first_of(",'") != std::string_view::npos;
}

// "1 0 1": several words, each of them a number.
bool are_several_numbers(std::string_view text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, "");
  return words.size() > 1 && std::ranges::all_of(words, is_real);
}

// "a|b" (NIH ChestX-ray), "[1, 2]" and the like.
bool is_set_of_labels(std::string_view text) {
  return text.find_first_of("|;") != std::string_view::npos || text.starts_with('[') || text.starts_with('{') ||
         are_several_numbers(text);
}

}  // namespace

// The words that pandas, R and spreadsheets write for missing values.
bool is_missing_value(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords{"nan", "na", "n/a", "#n/a", "<na>", "null", "none", "?", "-nan"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return equals_ignoring_case(text, word); });
}

// pandas writes booleans as True and False.
std::string_view as_number(std::string_view cell) noexcept {
  const std::string_view text = without_blanks(cell);
  return equals_ignoring_case(text, "true") ? "1" : equals_ignoring_case(text, "false") ? "0" : cell;
}

// "3.0" is 3: pandas writes whole numbers like this in a column with gaps.
std::optional<std::int64_t> whole_number_in(std::string_view text) noexcept {
  text = without_blanks(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  const auto dot = text.find('.');
  if (dot != std::string_view::npos) {
    if (dot + 1 == text.size() || text.find_first_not_of('0', dot + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, dot);
  }
  return parse_number<std::int64_t>(text);
}

std::optional<std::int64_t> class_number_in(std::string_view text) noexcept {
  const auto number = whole_number_in(text);
  return number && *number >= -1 && *number < kMostClassNumbers ? number : std::nullopt;
}

std::string problem_of_class(std::string_view text, std::int64_t limit) {
  const std::string label = "label \"" + printable(text.substr(0, 80)) + "\"";
  if (whole_number_in(text)) {
    return label + " is not between -1 and " + std::to_string(limit - 1) +
           (limit == kMostClassNumbers ? "" : ", the last of the given classes");
  }
  return label + " is no class number, as nearly all others are";
}

// A label that is in dataset.classes counts as a name, whatever it looks like.
LabelCensus::Kind& LabelCensus::kind_of(std::string_view text) {
  if (!given_.empty() && given_.contains(std::string(text))) return named_;
  if (class_number_in(text)) return numbers_;
  if (text.find_first_not_of("0123456789") == std::string_view::npos || whole_number_in(text)) return large_;
  if (is_missing_value(text)) return missing_;
  if (is_set_of_labels(text)) return sets_;
  return is_number_like(text) ? fraction_ : words_;
}

void LabelCensus::add(std::string_view text, std::uint64_t line) {
  if (text.empty()) return;
  Kind& kind = kind_of(text);
  if (kind.count++ > 0) return;
  kind.first = text.substr(0, 80);
  kind.line = line;
}

// The clearest evidence comes first: nearly all labels are numbers; dataset.classes decides; all
// other labels denote missing values. After that, labels are refused by their kind, or are names.
bool LabelCensus::are_numbers(const std::string& file, std::string_view field) const {
  const std::uint64_t others =
      named_.count + large_.count + fraction_.count + missing_.count + sets_.count + words_.count;
  const std::uint64_t all = numbers_.count + others;
  constexpr std::uint64_t kNearlyAll = 10;  // at most one label in this many may be damaged
  if (others == 0 || (numbers_.count > 0 && others * kNearlyAll <= all)) return true;
  if (!given_.empty()) return numbers_.count > 0 && named_.count == 0;
  if (numbers_.count > 0 && others == missing_.count) return true;

  const auto refuse = [&](const Kind& kind, const std::string& what, const std::string& advice) {
    throw ConfigError(file + (kind.line > 0 ? ":" + std::to_string(kind.line) : "") + ": " +
                      (field.empty() ? "" : "field \"" + std::string(field) + "\": ") + "label \"" +
                      printable(kind.first) + "\" is " + what + ". " + advice);
  };
  const std::string supported = "Supported is one class per image: its number (0, 1, ...) or its name. ";
  if (sets_.count > 0) refuse(sets_, "a set of labels", supported + "A field of kind \"multilabel\" has sets");
  if (words_.count == 0 && fraction_.count > 0) {
    refuse(fraction_, "a number with a fraction (regression)",
           supported + "A column of a table that a field of kind \"numbers\" names has other targets");
  }
  if (words_.count == 0 && large_.count > 0) {
    refuse(large_, "not between -1 and " + std::to_string(kMostClassNumbers - 1),
           "A label is a class number, not a regression target; if these are names of classes, list them in `classes`");
  }
  if (numbers_.count * 2 > all) {
    refuse(words_.count > 0 ? words_ : missing_,
           "no class number, as " + std::to_string(numbers_.count) + " of the " + std::to_string(all) + " labels are",
           "Correct these rows, or list the names of all classes in `classes`");
  }
  return false;
}

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace forebay::data

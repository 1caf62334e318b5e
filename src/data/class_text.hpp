#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

// Classes written as text in lists, tables and archive members: one rule distinguishes class numbers from names, so
// that the same data have the same labels in whatever form they are given.
namespace forebay::data {

// Class numbers are below this; a larger number shows that a column does not hold labels.
inline constexpr std::int64_t kMostClassNumbers = 1'000'000;

// Parses a whole number: "3", "+3" and "3.0" are 3; surrounding blanks are ignored. Nothing for any other text, and for
// numbers beyond 64 bits.
[[nodiscard]] std::optional<std::int64_t> whole_number_in(std::string_view text) noexcept;

// The text, or "1" and "0" for booleans in any case, with or without blanks around them.
[[nodiscard]] std::string_view as_number(std::string_view cell) noexcept;

// Parses a class number: a whole number from 0 to kMostClassNumbers - 1, or -1 for no class.
[[nodiscard]] std::optional<std::int64_t> class_number_in(std::string_view text) noexcept;

// The names of classes that have none: "0" to that of count - 1.
[[nodiscard]] std::vector<std::string> numbered_classes(std::int64_t count);

// Why a text is not a class number below `limit`, if labels are numbers; the reason given for a bad row. REQUIRES: it
// is not one.
[[nodiscard]] std::string problem_of_class(std::string_view text, std::int64_t limit = kMostClassNumbers);

// Whether a text denotes a missing value, as written by pandas and others: "nan", "None", "N/A", "?".
[[nodiscard]] bool is_missing_value(std::string_view text);

// Decides whether the labels of a dataset are class numbers or names. They are class numbers if at least nine in ten
// are, in which case the others make their rows bad, or if all others denote missing values, such as "nan". Otherwise
// they are names, unless most are numbers.
class LabelCensus {
 public:
  LabelCensus() = default;
  // `given`: dataset.classes; a label among these is a name.
  explicit LabelCensus(const std::vector<std::string>& given) : given_(given.begin(), given.end()) {}

  // Counts a label; an empty text is not counted. `line`: its line, for errors; 0 = unknown.
  void add(std::string_view text, std::uint64_t line = 0);

  // Whether the labels are class numbers; rows whose label has no class_number_in() are then bad. Throws ConfigError
  // naming `file`, the line, `field` ("": the label) and what to do if they are neither numbers nor names: numbers with
  // a fraction, sets of labels, or a mixture.
  [[nodiscard]] bool are_numbers(const std::string& file, std::string_view field = "") const;

 private:
  // The number of labels of one kind, and the first of them.
  struct Kind {
    std::uint64_t count = 0;
    std::string first = {};
    std::uint64_t line = 0;
  };
  [[nodiscard]] Kind& kind_of(std::string_view text);

  std::unordered_set<std::string> given_;
  Kind named_;     // given classes
  Kind numbers_;   // class numbers
  Kind large_;     // whole numbers that are not class numbers
  Kind fraction_;  // other numbers
  Kind missing_;   // words for a missing value
  Kind sets_;      // sets of labels
  Kind words_;     // the rest: names
};

}  // namespace forebay::data

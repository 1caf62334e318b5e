#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

// Classes that are written as text, in lists, tables and members of archives: one rule for what is a class number and
// what is a name, so that the same data have the same labels whichever way they are given.
namespace forebay::data {

// Class numbers are smaller; a larger one shows that a column is not one of labels.
inline constexpr std::int64_t kMostClassNumbers = 1'000'000;

// The whole number that a text is: "3", "+3" and "3.0" are 3, blanks around it do not matter. Nothing for any other
// text, and for numbers beyond 64 bits.
[[nodiscard]] std::optional<std::int64_t> whole_number_in(std::string_view text) noexcept;

// The class number that a text is: a whole number from 0 to kMostClassNumbers - 1, or -1 for no class.
[[nodiscard]] std::optional<std::int64_t> class_number_in(std::string_view text) noexcept;

// Why a text is no class number below `limit`, when labels are numbers: for the bad row. REQUIRES: it is none.
[[nodiscard]] std::string problem_of_class(std::string_view text, std::int64_t limit = kMostClassNumbers);

// Whether a text is a word for a value that is not there, as pandas and others write it: "nan", "None", "N/A", "?".
[[nodiscard]] bool is_missing_value(std::string_view text);

// Decides for all labels together whether they are class numbers or names. Where nearly all (nine of ten) are class
// numbers, they are: what is none is damage of its row. So they are if all others are words for a missing value, such
// as "nan". Else they are names, unless most are numbers.
class LabelCensus {
 public:
  LabelCensus() = default;
  // `given` classes: a label that is one of these is a name.
  explicit LabelCensus(const std::vector<std::string>& given) : given_(given.begin(), given.end()) {}

  // Counts a label; an empty text is none. `line`: where it stands, for errors; 0 = unknown.
  void add(std::string_view text, std::uint64_t line = 0);

  // Whether the labels are class numbers. Then those without a class_number_in() belong to bad rows. Throws ConfigError
  // that names `file`, the line, `field` ("": the label) and what to do where they are neither numbers nor names:
  // numbers with a fraction, sets of labels, or a mixture.
  [[nodiscard]] bool are_numbers(const std::string& file, std::string_view field = "") const;

 private:
  // Labels of one kind, and the first of them.
  struct Kind {
    std::uint64_t count = 0;
    std::string first = {};
    std::uint64_t line = 0;
  };
  [[nodiscard]] Kind& kind_of(std::string_view text);

  std::unordered_set<std::string> given_;
  Kind named_;     // given classes
  Kind numbers_;   // class numbers
  Kind large_;     // whole numbers that are none
  Kind fraction_;  // other numbers
  Kind missing_;   // words for no value
  Kind sets_;      // of labels
  Kind words_;     // the rest: names
};

}  // namespace forebay::data

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "container_bytes.hpp"
#include "fields.hpp"

namespace forebay::data {

// A container's value for a field of one sample; the container decides which members are set.
struct FieldValue {
  std::vector<std::int64_t> integers = {};
  std::vector<double> floats = {};
  std::vector<std::string> texts = {};
  std::vector<LabelledBox> boxes = {};
  std::optional<Extent> bytes = {};
};

// The sections [fields.NAME] of a configuration, in the form that containers use.
struct WantedFields {
  struct Wanted {
    Field field;
    std::string from;
    // Whether its data are bytes in a file rather than elements in the index.
    [[nodiscard]] bool is_bytes() const noexcept { return is_of_bytes(field.kind); }
    // The most values worth reading: with more of them the sample is bad anyway.
    [[nodiscard]] std::size_t most() const noexcept;
  };

  std::vector<Wanted> fields;  // beside image and label
  std::string image;           // the source of each of those two; "" leaves it to the format
  std::string label;

  [[nodiscard]] bool has_boxes() const noexcept {
    return std::ranges::any_of(fields, [](const Wanted& each) { return each.field.kind == FieldKind::boxes; });
  }

  WantedFields() = default;
  // Throws ConfigError that names the key.
  explicit WantedFields(const DatasetOptions& options);
};

// The elements of a field that the index holds. Throws SampleError if the value cannot be converted: a wrong number of
// values, an unknown class, a number that does not fit the type.
[[nodiscard]] std::vector<std::byte> elements_of(const WantedFields::Wanted& wanted, const FieldValue& value);

// How a value of a multilabel field states its classes: by numbers or names, or with as many zeros and ones as there
// are classes. The latter may be class numbers too, such as [0, 1] of two classes: all samples together say which.
enum class SetForm : std::uint8_t { other, numbers, zeros, ones, zeros_and_ones };
[[nodiscard]] SetForm form_of_set(const Field& field, const FieldValue& value);
// The elements of such zeros and ones if they are class numbers.
[[nodiscard]] std::vector<std::byte> elements_if_numbers(const WantedFields::Wanted& wanted, SetForm form);

// Adds a number to a list. Once one is not a whole number, all become floats, in their order; throws SampleError if
// that would change a value.
void add_number(FieldValue& value, std::int64_t number);
void add_number(FieldValue& value, double number);

// The values in a text: a name or several, separated by '|' or line breaks; for kind numbers,
// numbers separated by blanks, commas, semicolons or line breaks. Throws SampleError for anything
// that is not a number among them.
[[nodiscard]] FieldValue value_of_text(std::string_view text, FieldKind kind);

}  // namespace forebay::data

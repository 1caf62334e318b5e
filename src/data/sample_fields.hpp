#pragma once

#include <optional>
#include <string>
#include <vector>

#include "container_bytes.hpp"
#include "fields.hpp"

namespace forebay {

// What a container has of a field in one sample: what of these there is depends on the container.
struct FieldValue {
  std::vector<std::int64_t> integers = {};
  std::vector<double> floats = {};
  std::vector<std::string> texts = {};
  std::vector<LabelledBox> boxes = {};
  std::optional<Extent> bytes = {};
};

// The sections [fields.NAME] of a configuration, as a container is asked for them.
struct WantedFields {
  struct Wanted {
    Field field;
    std::string from;
    // Whether it is bytes in a file, not elements in the index.
    [[nodiscard]] bool is_bytes() const noexcept { return is_of_bytes(field.kind); }
    // So many values are looked at; more are too many anyway.
    [[nodiscard]] std::size_t most() const noexcept;
  };

  std::vector<Wanted> fields;  // beside image and label
  std::string image;           // where those are; "" leaves it to the format
  std::string label;

  WantedFields() = default;
  // Throws ConfigError that names the key.
  explicit WantedFields(const DatasetOptions& options);
};

// The elements of a field that the index holds. Throws SampleError when the value cannot be made into them: another
// number of values, a class that there is not, a number that the type does not hold.
[[nodiscard]] std::vector<std::byte> elements_of(const WantedFields::Wanted& wanted, const FieldValue& value);

// Values in a text: one name, or numbers between blanks or commas; names between '|'.
[[nodiscard]] FieldValue value_of_text(std::string_view text, FieldKind kind);

}  // namespace forebay

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "build.hpp"

// Fields of samples beside image and label ([fields.NAME]), as builders of indexes meet them. A format that has fields
// of its own looks at options.fields, makes a RecordTable::FieldColumn of field_of() for each one that it knows, and
// fills it for each sample as it adds that; see the comment there. What no builder filled is an error, or a file beside
// each image. All are called by one thread.
namespace forebay {

// What these options say of a field, with the defaults of its kind; `key` names the section in errors. The number of
// classes of a multilabel field is known when `options.classes` are given, else left to the builder. Throws ConfigError
// that names the key for what does not go together.
[[nodiscard]] Field field_of(const FieldOptions& options);

// Whether a field is bytes in a file, not elements in the index.
[[nodiscard]] bool is_of_bytes(FieldKind kind) noexcept;

// Whether the section only says where the image or the label is.
[[nodiscard]] bool is_image_or_label(std::string_view name) noexcept;

// Where the data set has a field: `from`, or the field's own name.
[[nodiscard]] const std::string& place_of(const FieldOptions& options) noexcept;

// The section of this name; null when there is none.
[[nodiscard]] const FieldOptions* find_field(const DatasetOptions& options, std::string_view name) noexcept;

// Makes the draft's fields those of the options, in their order: those that the builder filled, and for `from` with
// {stem} or {folder} in it a file beside each image. Throws ConfigError that names the key, and the fields that there
// are, for any other.
void complete_fields(const DatasetOptions& options, std::string_view format, IndexDraft& draft);

// One line for each section, to tell whether a saved index was made for these.
[[nodiscard]] std::vector<std::string> describe_fields(const std::vector<FieldOptions>& fields);

}  // namespace forebay

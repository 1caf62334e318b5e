#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "build.hpp"

// Fields of samples beside image and label ([fields.NAME]), for index builders. A format that has fields of its own
// looks at options.fields, makes a RecordTable::FieldColumn from field_of() for each one that it knows, and fills it
// for each sample that it adds; see the comment there. A field that no builder filled is an error, or a file beside
// each image. One thread calls all of these.
namespace forebay::data {

// The field that these options describe, with the defaults of its kind; `key` names the section in errors. The number
// of classes of a multilabel field is known if `options.classes` is given, else left to the builder. Throws ConfigError
// naming the key for options that do not go together.
[[nodiscard]] Field field_of(const FieldOptions& options);

// Whether a field consists of bytes as files have them (or of a drawn mask, drawn_mask.hpp), rather than of elements.
[[nodiscard]] bool is_of_bytes(FieldKind kind) noexcept;

// Whether the section only says where to find the image or the label.
[[nodiscard]] bool is_image_or_label(std::string_view name) noexcept;

// The name, while an index is built, of the field that clip.segment stands for; no section can have it.
inline constexpr std::string_view kSegmentField = "clip.segment";

// Where the dataset has a field: `from`, or the field's own name.
[[nodiscard]] const std::string& place_of(const FieldOptions& options) noexcept;

// The section of this name; null when there is none.
[[nodiscard]] const FieldOptions* find_field(const DatasetOptions& options, std::string_view name) noexcept;

// Makes the draft's fields those of the options, in their order: those that the builder filled, and a file beside each
// image where `from` contains {stem} or {folder}. For any other it throws ConfigError naming the key and the fields
// that exist.
void complete_fields(const DatasetOptions& options, std::string_view format, IndexDraft& draft);

// The file that a pattern with {stem} or {folder} names for an image; both paths begin in one folder.
[[nodiscard]] std::string path_beside(std::string_view pattern, std::string_view image);

// Moves the images that are fields of other images by the patterns of these options to scan.unusable, as notes.
void leave_out_fields(const std::vector<FieldOptions>& fields, Scan& scan);

// One line per section, to tell whether a saved index was made for these fields.
[[nodiscard]] std::vector<std::string> describe_fields(const std::vector<FieldOptions>& fields);

}  // namespace forebay::data

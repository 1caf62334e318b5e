#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "build.hpp"

// Fields of samples besides image and label ([fields.NAME]), for index builders. A format with
// fields of its own goes through options.fields, makes a RecordTable::FieldColumn from field_of()
// for each field that it knows, and fills it for each sample that it adds (see the comment of
// FieldColumn). A field that no builder filled is either a file beside each image or an error. For
// one thread.
namespace forebay::data {

// The field described by these options, with the defaults of its kind. The number of classes of a
// multilabel field is set if `options.classes` is given, else left to the builder. Throws
// ConfigError naming the key for incompatible options.
[[nodiscard]] Field field_of(const FieldOptions& options);

// Whether `from` names a file beside each image: it holds {stem}, {stem-ENDING} or {folder}.
[[nodiscard]] bool is_pattern(std::string_view from) noexcept;

// Whether a field's data are the bytes of a file (or of a drawn mask, drawn_mask.hpp) rather than elements.
[[nodiscard]] bool is_of_bytes(FieldKind kind) noexcept;

// Whether the section only says where to find the image or the label.
[[nodiscard]] bool is_image_or_label(std::string_view name) noexcept;

// The name, while an index is built, of the field that clip.segment stands for; no section can have it.
inline constexpr std::string_view kSegmentField = "clip.segment";

// A field's source in the dataset: `from`, or the field's own name.
[[nodiscard]] const std::string& place_of(const FieldOptions& options) noexcept;

// The section of this name; null if there is none.
[[nodiscard]] const FieldOptions* find_field(const DatasetOptions& options, std::string_view name) noexcept;

// Sets the draft's fields to those of the options, in their order: those filled by the builder, and files beside each
// image if `from` is a pattern. For any other it throws ConfigError naming the key and the existing
// fields.
void complete_fields(const DatasetOptions& options, std::string_view format, IndexDraft& draft);

// The file that a pattern names for an image; both paths are relative to the same folder. {stem-ENDING} is the stem
// without that ending, and stays as it is if the stem lacks it.
[[nodiscard]] std::string path_beside(std::string_view pattern, std::string_view image);

// Moves images that these options' patterns make fields of other images to scan.unusable, as notes.
void leave_out_fields(const std::vector<FieldOptions>& fields, Scan& scan);

// One line per section, to determine whether a saved index was made for these fields.
[[nodiscard]] std::vector<std::string> describe_fields(const std::vector<FieldOptions>& fields);

}  // namespace forebay::data

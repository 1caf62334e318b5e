#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forebay {

inline constexpr auto kNowhere = std::string_view::npos;

// Without surrounding blanks, tabs and carriage returns.
[[nodiscard]] std::string_view without_blanks(std::string_view text) noexcept;

// Names of images in lists: those of is_image_name() and the formats that a list may name by mistake.
[[nodiscard]] bool is_picture_name(std::string_view name) noexcept;

// What divides the lines of a list: ',' or '\t' or, behind the path only, ' '.
[[nodiscard]] char separator_of(std::string_view text);

// Where the label of "a.jpg 0" begins: behind the blanks that follow the path; kNowhere when there is none.
[[nodiscard]] std::size_t label_after_path(std::string_view line) noexcept;

// Which fields of a record are path and label.
struct ListColumns {
  std::size_t path = 0;
  std::size_t label = 1;
};

// The columns that a header names, or nothing when `fields` are no header. `next` is the first field of the record
// below it, "" when there is none.
struct HeaderFound {
  ListColumns columns;
  std::string problem;  // why the columns cannot be used; "" = they can
};
[[nodiscard]] std::optional<HeaderFound> find_header(std::span<const std::string_view> fields, std::string_view next);

}  // namespace forebay

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace forebay {

// The document as UTF-8 without a byte order mark, ready for tinyxml2. ISO-8859-1 is converted when the XML
// declaration names it. Throws SampleError for other encodings, bytes that are not UTF-8, and characters that XML does
// not have (XML 1.0, production 2).
[[nodiscard]] std::string annotation_text(std::span<const std::byte> xml);

// Refuses what tinyxml2 lets pass and an annotation has no use for: any DOCTYPE, ENTITY or other declaration, an XML
// declaration that is not at the start, hundreds of attributes, and references to anything but a character or one of
// the five entities that every document has. Overwrites processing instructions with blanks, because tinyxml2 does not
// know them. REQUIRES: the result of annotation_text. Throws SampleError with the line.
void clean_markup(std::string& text);

// 1-based line of a byte.
[[nodiscard]] std::size_t line_at(std::string_view text, std::size_t offset) noexcept;

}  // namespace forebay

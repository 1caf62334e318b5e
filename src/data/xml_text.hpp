#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tinyxml2 {
class XMLDocument;
class XMLElement;
}  // namespace tinyxml2

// XML of annotations, which are untrusted. Any thread.
namespace forebay::data {

// Parses a document, in UTF-8 or ISO-8859-1, into `document`, and returns its root. Throws SampleError with line and
// reason for one that is not usable: not well-formed, a DOCTYPE or ENTITY declaration (refused whole: entity bombs,
// external entities), nested too deep, another root than `root`.
[[nodiscard]] const tinyxml2::XMLElement& parse_xml(std::span<const std::byte> xml, std::string_view root,
                                                    tinyxml2::XMLDocument& document);

// A value of the file for a message, shortened if it is long.
[[nodiscard]] std::string shown_text(std::string_view value);

// The finite number that the whole text represents; a plus sign is allowed.
[[nodiscard]] std::optional<double> finite_number_in(std::string_view text);

}  // namespace forebay::data

// Checks the XML of annotations and parses it with tinyxml2, which is small and fast, but accepts
// malformed XML and takes hours for some hostile input. So the text is checked before it is parsed,
// and the tree afterwards.
//
// In order: conversion to UTF-8 and characters (annotation_text), declarations and references
// (clean_markup), tinyxml2's own parsing, the root element (only_root). Errors name the line of the
// original file, which is why anything that is removed is overwritten with blanks. Called once per
// file, on any thread of an index build; there is no state.

#include "xml_text.hpp"

#include <tinyxml2.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <forebay/error.hpp>

#include "base/text.hpp"
#include "file_nature.hpp"

namespace forebay::data {
namespace {

constexpr auto npos = std::string_view::npos;

// 1-based line of a byte.
std::size_t line_at(std::string_view text, std::size_t offset) noexcept {
  const auto before = text.substr(0, offset);
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

[[noreturn]] void refuse(std::string_view text, std::size_t offset, const std::string& reason) {
  throw SampleError("line " + std::to_string(line_at(text, offset)) + ": " + reason);
}

// 0 past the end; XML does not allow that character.
unsigned byte_at(std::string_view text, std::size_t offset) {
  return offset < text.size() ? static_cast<unsigned char>(text[offset]) : 0U;
}

// XML 1.0, production 2.
bool is_character(std::uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code <= 0xD7FF || (code >= 0xE000 && code <= 0xFFFD) || (code >= 0x10000 && code <= 0x10FFFF);
}

void check_characters(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_character(text.substr(at));
    if (next.length == 0) {
      refuse(text, at,
             "byte 0x" + forebay::hex(byte_at(text, at), 2) + " at offset " + std::to_string(at) + " is not UTF-8");
    }
    if (!is_character(next.code)) {
      refuse(text, at, "character U+" + forebay::hex(next.code, 4) + " is not allowed in XML");
    }
    at += next.length;
  }
}

// The encoding that the XML declaration names, in lower case; "utf-8" without one (XML 1.0, section 4.3.3).
// The declaration is ASCII in every encoding that is accepted.
std::string declared_encoding(std::string_view text) {
  if (!text.starts_with("<?xml")) return "utf-8";
  const auto declaration = text.substr(0, text.find("?>"));
  const auto key = declaration.find("encoding");
  const auto open = key == npos ? npos : declaration.find_first_of("'\"", key);
  const auto close = open == npos ? npos : declaration.find(declaration[open], open + 1);
  if (close == npos) return "utf-8";
  return lower_case(declaration.substr(open + 1, close - open - 1));
}

// ISO-8859-1 has the first 256 code points of Unicode, two bytes each in UTF-8 from 0x80 on.
std::string from_latin1(std::string_view text) {
  std::string utf8;
  utf8.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0U | (byte >> 6U));
      utf8 += static_cast<char>(0x80U | (byte & 0x3FU));
    }
  }
  return utf8;
}

// The offset after the next `end`. Refuses `what` if it is never closed.
std::size_t skip_past(std::string_view text, std::size_t at, std::string_view end, const std::string& what) {
  const auto found = text.find(end, at);
  if (found == npos) refuse(text, at, what + " is never closed");
  return found + end.size();
}

// The offset after a comment or CDATA section that begins at `at`. Refuses any declaration.
std::size_t skip_exclamation(std::string_view text, std::size_t at) {
  const auto rest = text.substr(at);
  if (rest.starts_with("<!--")) return skip_past(text, at + 4, "-->", "a comment");
  if (rest.starts_with("<![CDATA[")) return skip_past(text, at + 9, "]]>", "a CDATA section");
  refuse(text, at, "a DOCTYPE, ENTITY or other declaration, which annotations may not have");
}

bool is_character_reference(std::string_view name) {
  const bool is_hex = name.starts_with("#x");
  const auto digits = name.substr(is_hex ? 2 : 1);
  const auto code = parse_number<std::uint32_t>(digits, is_hex ? 16 : 10);
  return code && is_character(*code);
}

// The offset after the reference at `at`. A reference longer than kLongest is not a known one.
std::size_t skip_reference(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 16;
  const auto semicolon = text.substr(at, kLongest).find(';');
  const auto name = semicolon == npos ? std::string_view{} : text.substr(at + 1, semicolon - 1);
  constexpr std::array<std::string_view, 5> kPredefined{"amp", "lt", "gt", "quot", "apos"};
  const bool known = std::find(kPredefined.begin(), kPredefined.end(), name) != kPredefined.end() ||
                     (name.starts_with('#') && is_character_reference(name));
  if (!known) refuse(text, at, "'&' does not begin a known XML reference; write &amp;");
  return at + semicolon + 1;
}

// tinyxml2 compares each attribute of an element with all others: a hostile file could make that take hours.
void check_attributes(std::string_view text, std::size_t at) {
  constexpr std::size_t kMost = 256;
  std::size_t attributes = 0;
  char quote = '\0';
  for (std::size_t i = at + 1; i < text.size() && text[i] != '<'; ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      return;
    } else if (c == '=' && ++attributes > kMost) {
      refuse(text, at, "an element has more than " + std::to_string(kMost) + " attributes");
    }
  }
}

// "<?xml-stylesheet" and "<?xmlfoo" are other instructions.
bool is_xml_declaration(std::string_view instruction) {
  return instruction.starts_with("<?xml") && byte_at(instruction, 5) != '-' &&
         std::isalnum(static_cast<int>(byte_at(instruction, 5))) == 0;
}

// Keeps line breaks, so that later errors name the right lines.
void blank(std::string& document, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; ++at) {
    if (document[at] != '\n') document[at] = ' ';
  }
}

// The document as UTF-8 without a byte order mark, ready for tinyxml2. ISO-8859-1 is converted when the XML
// declaration names it. Throws SampleError for other encodings, bytes that are not UTF-8, and characters that XML does
// not have (XML 1.0, production 2).
std::string annotation_text(std::span<const std::byte> xml) {
  std::string_view text = as_text(xml);
  const auto is_utf16 = [&](std::string_view mark) { return text.starts_with(mark); };
  if (is_utf16("\xFF\xFE") || is_utf16("\xFE\xFF")) {
    throw SampleError("line 1: the document is UTF-16; convert it to UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);

  const std::string encoding = declared_encoding(text);
  const bool is_ascii = std::none_of(text.begin(), text.end(), [](char c) { return (c & '\x80') != 0; });
  std::string utf8;
  if (encoding == "iso-8859-1" || encoding == "latin1") {
    utf8 = from_latin1(text);
  } else if (encoding == "utf-8" || encoding == "utf8" || (is_ascii && !encoding.starts_with("utf-16"))) {
    utf8 = text;
  } else {
    throw SampleError("line 1: encoding \"" + encoding.substr(0, 40) + "\" is not supported; convert it to UTF-8");
  }
  check_characters(utf8);
  return utf8;
}

// Rejects what tinyxml2 accepts and no annotation needs: any DOCTYPE, ENTITY or other declaration, an XML
// declaration that is not at the start, hundreds of attributes, and references to anything but a character or one of
// the five entities that every document has. Overwrites processing instructions with blanks, because tinyxml2 does not
// support them. REQUIRES: the result of annotation_text. Throws SampleError with the line.
void clean_markup(std::string& document) {
  const std::string_view text = document;
  for (std::size_t at = text.find_first_of("<&"); at != npos; at = text.find_first_of("<&", at)) {
    if (text[at] == '&') {
      at = skip_reference(text, at);
    } else if (text.substr(at).starts_with("<!")) {
      at = skip_exclamation(text, at);
    } else if (text.substr(at).starts_with("<?")) {
      const std::size_t end = skip_past(text, at, "?>", "a processing instruction");
      if (!is_xml_declaration(text.substr(at))) {
        blank(document, at, end);
      } else if (at != 0) {
        refuse(text, at, "an XML declaration that is not at the start");
      }
      at = end;
    } else {
      check_attributes(text, at);
      ++at;
    }
  }
}

using tinyxml2::XMLDocument;
using tinyxml2::XMLElement;
using tinyxml2::XMLNode;

std::string describe(const XMLDocument& document) {
  switch (document.ErrorID()) {
    case tinyxml2::XML_ERROR_EMPTY_DOCUMENT: return "the document is empty";
    case tinyxml2::XML_ELEMENT_DEPTH_EXCEEDED: return "elements are nested too deep";
    case tinyxml2::XML_ERROR_MISMATCHED_ELEMENT: return "a closing tag does not match the element that is open";
    case tinyxml2::XML_ERROR_PARSING_ATTRIBUTE: return "malformed attribute";
    case tinyxml2::XML_ERROR_PARSING_ELEMENT: return "malformed element";
    case tinyxml2::XML_ERROR_PARSING_TEXT: return "malformed text";
    default: return std::string("not well-formed XML (") + document.ErrorName() + ")";
  }
}

[[noreturn]] void refuse(int line, const std::string& reason) {
  throw SampleError("line " + std::to_string(std::max(line, 1)) + ": " + reason);
}

// tinyxml2 accepts text and further elements outside the root, and documents without a root.
// XML has exactly one root element and no text beside it.
const XMLElement& only_root(const XMLDocument& document, std::string_view wanted) {
  const XMLElement* root = document.RootElement();
  if (root == nullptr) refuse(1, "the document has no element");
  for (const XMLNode* node = document.FirstChild(); node != nullptr; node = node->NextSibling()) {
    if (node->ToText() != nullptr) refuse(node->GetLineNum(), "text outside the root element");
    if (node->ToElement() != nullptr && node != root) refuse(node->GetLineNum(), "a second root element");
  }
  const std::string_view name = root->Name();
  if (name != wanted) {
    refuse(root->GetLineNum(), "the root element is <" + shown_text(name) + ">, not <" + std::string(wanted) + ">");
  }
  return *root;
}

}  // namespace

std::string shown_text(std::string_view value) {
  constexpr std::size_t kLongest = 40;
  return value.size() <= kLongest ? std::string(value) : std::string(value.substr(0, kLongest)) + "...";
}

std::optional<double> finite_number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

const XMLElement& parse_xml(std::span<const std::byte> xml, std::string_view root, XMLDocument& document) {
  if (const std::string nature = nature_of(xml); !nature.empty())
    throw SampleError("line 1: the document is " + nature);
  std::string text = annotation_text(xml);
  if (without_blanks(text).empty()) throw SampleError("line 1: the document is empty");
  clean_markup(text);
  if (document.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS) {
    refuse(document.ErrorLineNum(), describe(document));
  }
  return only_root(document, root);
}

}  // namespace forebay::data

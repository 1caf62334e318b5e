// Describes a file by its first bytes, for error messages: "not a JPEG: a PDF document". It never
// decides how something is decoded; each codec does that itself. Signatures are those of the
// formats' specifications; their order matters only where one is a prefix of another.

#include "signature.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/text.hpp"
#include "data/file_nature.hpp"

namespace forebay::make {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  std::string_view name;
};

constexpr std::array kSignatures{
    Signature{0, "\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    Signature{0, "GIF87a"sv, "a GIF image"},
    Signature{0, "GIF89a"sv, "a GIF image"},
    Signature{8, "WEBP"sv, "a WebP image"},
    Signature{0, "II*\0"sv, "a TIFF image"},
    Signature{0, "MM\0*"sv, "a TIFF image"},
    Signature{0, "BM"sv, "a BMP image"},
    Signature{4, "ftypavif"sv, "an AVIF image"},
    Signature{4, "ftyphei"sv, "a HEIF image"},
    Signature{0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 image"},
    Signature{0, "\0\0\0\x0cJXL "sv, "a JPEG XL image"},
    Signature{0, "%PDF-"sv, "a PDF document"},
    Signature{0, "PK\x03\x04"sv, "a ZIP archive"},
    Signature{0, "\x1f\x8b"sv, "gzip data"},
};

std::string_view view_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Enough to tell text from data.
constexpr std::size_t kTextProbe = 512;

// No control characters, and no byte that cannot occur in UTF-8.
bool is_text(std::string_view head) noexcept {
  return std::none_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f') || byte == 0x7f || byte >= 0xf5;
  });
}

// Looks after a byte order mark and blanks.
std::string describe_text(std::string_view head) {
  const auto start = head.find_first_not_of("\xef\xbb\xbf \t\r\n");
  const auto text = start == std::string_view::npos ? std::string_view{} : head.substr(start);
  if (text.starts_with("<?xml")) return "XML";
  return "text";
}

}  // namespace

bool starts_as_webp(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= 12 && view_of(bytes).starts_with("RIFF") && view_of(bytes).substr(8).starts_with("WEBP");
}

bool starts_as_tiff(std::span<const std::byte> bytes) noexcept {
  const auto head = view_of(bytes).substr(0, 4);
  return head == "II*\0"sv || head == "MM\0*"sv || head == "II+\0"sv || head == "MM\0+"sv;
}

// nature_of() recognises Git LFS pointers, HTML pages and the like. It comes first because it
// explains most.
std::string describe_content(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "empty";
  if (std::string nature = data::nature_of(bytes); !nature.empty()) return nature;
  const std::string_view content = view_of(bytes);
  const auto head = content.substr(0, kTextProbe);
  for (const auto& signature : kSignatures) {
    if (content.size() <= signature.offset || !content.substr(signature.offset).starts_with(signature.bytes)) continue;
    // Two letters alone are no proof, because text may begin with them.
    if (signature.bytes.size() > 2 || !is_text(head)) return std::string(signature.name);
  }
  if (head.find_first_not_of('\0') == std::string_view::npos) {
    if (content.find_first_not_of('\0') == std::string_view::npos) {
      return std::to_string(content.size()) + " zero bytes";
    }
    return "data that begins with zero bytes";
  }
  if (is_text(head)) return describe_text(head);
  std::string start = hex(std::to_integer<unsigned>(bytes[0]), 2);
  if (bytes.size() > 1) start += " " + hex(std::to_integer<unsigned>(bytes[1]), 2);
  return "data that begins with " + start + " where a JPEG has ff d8";
}

}  // namespace forebay::make

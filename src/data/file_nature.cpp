// Says what a file really is if it is not what it should be: compressed in a way that is not
// supported, a Git LFS pointer, an error page that a download saved, UTF-16 text. Used before a
// file is parsed and when parsing fails, so that the message names the cause and what to do.
//
// Only the first 512 bytes are looked at. A file that cannot be read is not an error here: whoever
// reads it next reports that.

#include "file_nature.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <forebay/error.hpp>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

using namespace std::string_view_literals;

constexpr auto kLfsPointer = "version https://git-lfs.github.com/spec/"sv;

struct KnownStart {
  std::string_view bytes;
  std::string_view nature;
};

// Signatures from the formats' specifications.
constexpr std::array kKnownStarts{
    KnownStart{kLfsPointer, "a pointer of Git LFS, not the file itself; run `git lfs pull`"},
    KnownStart{"\xFD"
               "7zXZ\0"sv,
               "compressed by xz; decompress it (xz -d), or compress it by gzip"},
    KnownStart{"\x28\xB5\x2F\xFD"sv, "compressed by Zstandard; decompress it (zstd -d), or compress it by gzip"},
    KnownStart{"\x04\x22\x4D\x18"sv, "compressed by LZ4; decompress it (lz4 -d), or compress it by gzip"},
    KnownStart{"7z\xBC\xAF\x27\x1C"sv, "a 7-Zip archive; unpack it"},
    KnownStart{"Rar!\x1A\x07"sv, "a RAR archive; unpack it"},
    KnownStart{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file; docs/data.md shows how to convert it"},
    KnownStart{"PAR1\x15"sv, "a Parquet file; docs/data.md shows how to convert it"},
    KnownStart{"ARROW1\0\0"sv, "an Arrow file; docs/data.md shows how to convert it"},
};

// The first bytes of a file; none if it cannot be read.
std::vector<std::byte> head_of(const OpenFile& file) {
  constexpr std::size_t kHead = 512;
  try {
    std::vector<std::byte> head(std::min(kHead, file.size));
    read_at(file, 0, head);
    return head;
  } catch (const SampleError&) {
    return {};
  }
}

std::vector<std::byte> head_of(const std::string& path) {
  try {
    return head_of(store::open_regular(path));
  } catch (const SampleError&) {
    return {};
  }
}

// "BZh", the compression level as a digit, and the block's magic number, which is pi in BCD.
bool is_bzip2(std::string_view head) noexcept {
  constexpr auto kBlock = "1AY&SY"sv;  // after the level
  return head.starts_with("BZh") && head.substr(std::min<std::size_t>(head.size(), 4)).starts_with(kBlock);
}

// Whether this is text in units of `bytes` bytes from `at` on. It must have no control characters
// except tabs and line ends, and at least half of the units must be ASCII: random bytes have few,
// Latin scripts nearly all.
bool is_wide_text(std::string_view head, std::size_t at, std::size_t bytes, bool big_endian) noexcept {
  constexpr std::size_t kUnits = 64;
  std::size_t units = 0;
  std::size_t plain = 0;
  for (; units < kUnits && at + bytes <= head.size(); at += bytes, ++units) {
    std::uint32_t unit = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      unit |= std::uint32_t{static_cast<unsigned char>(head[at + i])} << 8 * (big_endian ? bytes - 1 - i : i);
    }
    if (unit < 0x20 && unit != '\t' && unit != '\n' && unit != '\r') return false;
    plain += unit < 0x80 ? 1 : 0;
  }
  return units >= 2 && 2 * plain >= units;
}

// UTF-32's byte order mark comes first, because UTF-16's is its beginning. Without a mark only
// longer texts are judged.
std::string_view wide_text(std::string_view head) noexcept {
  constexpr auto kUtf16 = "UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"sv;
  constexpr auto kUtf32 = "UTF-32 text; save it as UTF-8 (iconv -f UTF-32 -t UTF-8)"sv;
  if (head.starts_with("\xFF\xFE\0\0"sv) && is_wide_text(head, 4, 4, false)) return kUtf32;
  if (head.starts_with("\0\0\xFE\xFF"sv) && is_wide_text(head, 4, 4, true)) return kUtf32;
  if (head.starts_with("\xFF\xFE"sv) && is_wide_text(head, 2, 2, false)) return kUtf16;
  if (head.starts_with("\xFE\xFF"sv) && is_wide_text(head, 2, 2, true)) return kUtf16;
  constexpr std::size_t kProof = 16;  // the bytes needed without a byte order mark
  const bool is_long = head.size() >= kProof;
  return is_long && (is_wide_text(head, 0, 2, false) || is_wide_text(head, 0, 2, true)) &&
                 head.substr(0, kProof).find('\0') != std::string_view::npos
             ? kUtf16
             : std::string_view();
}

bool begins_with_tag(std::string_view text, std::string_view lower_case) noexcept {
  return equals_ignoring_case(text.substr(0, lower_case.size()), lower_case);
}

// The answer of a web server or an object store, saved in place of the file. Object stores answer
// with a document <Error><Code>...; other XML is left to the format that reads it.
std::string_view error_page(std::string_view head) noexcept {
  const auto text = head.substr(std::min(head.find_first_not_of("\xEF\xBB\xBF \t\r\n"), head.size()));
  for (const auto tag : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv}) {
    if (begins_with_tag(text, tag)) return "HTML, perhaps an error page that a download saved; download the file again";
  }
  const bool is_xml = text.starts_with("<?xml") || text.starts_with("<Error>");
  return is_xml && text.find("<Error><Code>") != std::string_view::npos
             ? "an error that an object store answered in place of the file; download it again"
             : std::string_view();
}

}  // namespace

std::string nature_of(std::span<const std::byte> bytes) {
  const std::string_view head = as_text(bytes).substr(0, 512);
  for (const auto& [start, nature] : kKnownStarts) {
    if (head.starts_with(start)) return std::string(nature);
  }
  if (is_bzip2(head)) return "compressed by bzip2; decompress it (bzip2 -d), or compress it by gzip";
  if (const auto text = wide_text(head); !text.empty()) return std::string(text);
  return std::string(error_page(head));
}

std::string nature_as_cause(std::span<const std::byte> head) {
  const std::string nature = nature_of(head);
  return nature.empty() ? "" : ": it is " + nature;
}

std::string nature_of_file(const std::string& path) { return nature_of(head_of(path)); }
std::string nature_of_file(const OpenFile& file) { return nature_of(head_of(file)); }

void refuse_foreign(const std::string& path) {
  const std::string nature = nature_of_file(path);
  if (!nature.empty()) throw SampleError("the file is " + nature);
}

bool is_lfs_pointer(const std::string& path) { return as_text(head_of(path)).starts_with(kLfsPointer); }

// RFC 1950: method 8 and a window of 32 KiB, and a header that is a multiple of 31.
bool may_be_zlib(std::span<const std::byte> head) noexcept {
  if (head.size() < 2 || head[0] != std::byte{0x78}) return false;
  return (0x7800U + std::to_integer<unsigned>(head[1])) % 31 == 0;
}

}  // namespace forebay::data

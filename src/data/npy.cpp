// Parses NumPy's .npy files: magic bytes, a version, the header's length, a header that is the text
// of a Python dictionary, then the elements (documented in numpy/lib/format.py).
//
// parse_npy_header() parses the header alone, parse_npy() the whole array without copying its
// elements; copy_in_c_order() converts elements to the machine's byte order and C order. All of it
// runs on any thread, both while an index is built and for each sample that has an array, so it
// keeps no state and allocates little.
//
// Only what NumPy itself writes is accepted. Python's full syntax, records and pickled objects
// (which could run code) are refused.

#include "npy.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <forebay/error.hpp>
#include <limits>
#include <string_view>

#include "base/text.hpp"
#include "file_nature.hpp"

namespace forebay::data {
namespace {

using namespace std::string_view_literals;

constexpr auto kNpyMagic = "\x93NUMPY"sv;
static_assert(std::endian::native == std::endian::little, "elements are copied by their low bytes");

SampleError npy_refusal(const std::string& what) { return SampleError("npy: " + what); }
// A separate type from damage, because an intact array of another type may be meant for another
// purpose than the one it was tried for.
UnfitArray type_refusal(const std::string& what) {
  UnfitArray error("npy: " + what);
  return error;
}

// Parses the header, a dictionary in the form that NumPy writes. Any other form that Python would
// accept counts as damage.
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view text, NpyTexts texts) : rest_(text), texts_(texts) {}

  // `seen` counts each key in digits of its own, so that both a missing and a repeated key are
  // noticed.
  void read(NpyArray& array) {
    expect('{');
    unsigned seen = 0;
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        seen += 1;
        read_type(array);
      } else if (key == "fortran_order") {
        seen += 16;
        array.fortran_order = truth();
      } else if (key == "shape") {
        seen += 256;
        read_shape(array);
      } else {
        throw damaged("an unknown key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (!rest_.empty()) throw damaged("text after the dictionary");
    if (seen != 1 + 16 + 256) throw damaged("descr, fortran_order and shape must be there once each");
  }

 private:
  [[nodiscard]] static SampleError damaged(const std::string& what) { return npy_refusal("damaged header: " + what); }

  void skip_blanks() noexcept { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  [[nodiscard]] bool accept(char c) noexcept {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) throw damaged(std::string("no '") + c + "' where one must be");
  }
  [[nodiscard]] std::string_view quoted() {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const auto end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) throw damaged("no text in quotes where one must be");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  [[nodiscard]] bool truth() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair{"True"sv, true}, std::pair{"False"sv, false}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    throw damaged("fortran_order is neither True nor False");
  }

  // "<u2" is byte order, kind and size; '=' means native byte order and '|' none. Texts are read
  // only if they can be labels, and those of kind 'U' only if they are little-endian.
  void read_type(NpyArray& array) {
    skip_blanks();
    if (rest_.starts_with('[')) throw type_refusal("an array of records; only plain numbers are read");
    const std::string_view text = quoted();
    const bool has_order = !text.empty() && "<>|="sv.find(text.front()) != std::string_view::npos;
    const std::string_view type = text.substr(has_order ? 1 : 0);
    if (type.starts_with('O'))
      throw type_refusal("pickled Python objects, which are never loaded; save an array of numbers");
    std::size_t bytes = 0;
    const char* const end = type.data() + type.size();
    const bool has_size = type.size() > 1 && std::from_chars(type.data() + 1, end, bytes).ptr == end;
    const auto is_one_of = [&](std::initializer_list<std::size_t> sizes) {
      return std::ranges::find(sizes, bytes) != sizes.end();
    };
    const char kind = type.empty() ? '\0' : type.front();
    // Chosen: all elements are as long as the longest text, so longer texts would mean gigabytes.
    constexpr std::size_t kLongestText = 65536;
    const bool is_text = texts_ == NpyTexts::read && has_size && bytes > 0 && bytes <= kLongestText &&
                         (kind == 'S' || (kind == 'U' && text.front() != '>'));
    const bool is_number =
        has_size && ((kind == 'b' && bytes == 1) || ((kind == 'u' || kind == 'i') && is_one_of({1, 2, 4, 8})) ||
                     (kind == 'f' && is_one_of({2, 4, 8})));
    if (!is_number && !is_text)
      throw type_refusal("elements of type \"" + std::string(text.substr(0, 40)) + "\"; only plain numbers are read");
    array.kind = kind;
    array.element_bytes = kind == 'U' ? 4 * bytes : bytes;
    array.big_endian = text.front() == '>';
  }

  void read_shape(NpyArray& array) {
    expect('(');
    array.dimensions = 0;
    while (!accept(')')) {
      if (array.dimensions == NpyArray::kMostDimensions) throw npy_refusal("more than 8 dimensions");
      array.shape[array.dimensions++] = extent();
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }
  [[nodiscard]] std::int64_t extent() {
    skip_blanks();
    std::int64_t value = -1;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0)
      throw damaged("the shape is not made of whole numbers of 64 bits, 0 or more");
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2
    return value;
  }

  std::string_view rest_;
  NpyTexts texts_;
};

// IEEE 754 binary16: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction. With exponent 0 the
// number is subnormal: the fraction counts steps of 2^-24.
float float_of_half(std::uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special = fraction == 0 ? kInfinity : std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 31  ? special
                          : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

// An extent of 0 makes the size 0, even if the product of the others would overflow.
std::uint64_t element_bytes_of(const NpyArray& array) {
  std::uint64_t bytes = array.element_bytes;
  const auto extents = std::span(array.shape).first(array.dimensions);
  if (std::ranges::find(extents, 0) != extents.end()) return 0;
  for (const std::int64_t extent : extents) {
    if (bytes > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(extent)) {
      throw npy_refusal("damaged header: shape " + array.shape_text() + " is larger than any file");
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

// In Fortran order the first index varies fastest.
std::array<std::int64_t, NpyArray::kMostDimensions> NpyArray::steps() const noexcept {
  std::array<std::int64_t, kMostDimensions> steps{};
  std::int64_t step = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t at = fortran_order ? i : dimensions - 1 - i;
    steps[at] = step;
    // An array without elements may have any shape, and its steps are never used.
    if (__builtin_mul_overflow(step, shape[at], &step)) step = 0;
  }
  return steps;
}

// Signed elements are sign-extended; unsigned and floating-point elements give their bits.
std::int64_t NpyArray::whole(std::size_t i) const noexcept {
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < element_bytes; ++k) {
    const auto byte = std::to_integer<std::uint64_t>(elements[i * element_bytes + k]);
    bits |= byte << 8 * (big_endian ? element_bytes - 1 - k : k);
  }
  const auto above = static_cast<unsigned>(64 - 8 * element_bytes);
  return kind == 'i' ? static_cast<std::int64_t>(bits << above) >> above : static_cast<std::int64_t>(bits);
}

double NpyArray::real(std::size_t i) const noexcept {
  const std::int64_t bits = whole(i);
  if (kind == 'i') return static_cast<double>(bits);
  if (kind != 'f') return static_cast<double>(static_cast<std::uint64_t>(bits));
  switch (element_bytes) {
    case 2: return float_of_half(static_cast<std::uint16_t>(bits));
    case 4: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

// Kind 'U' has four bytes of UTF-32 per character, which are converted to UTF-8; kind 'S' has
// bytes, which are copied. NumPy pads both with NULs.
std::string NpyArray::text(std::size_t i) const {
  const std::size_t unit = kind == 'U' ? 4 : 1;
  std::string text;
  std::size_t used = 0;  // length up to the last character other than NUL
  for (std::size_t at = i * element_bytes; at < (i + 1) * element_bytes; at += unit) {
    std::uint32_t code = 0;
    std::memcpy(&code, elements.data() + at, unit);
    if (kind == 'S' || code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += {static_cast<char>(0xC0 | code >> 6U), static_cast<char>(0x80 | (code & 0x3FU))};
    } else if (code < 0x10000) {
      text += {static_cast<char>(0xE0 | code >> 12U), static_cast<char>(0x80 | (code >> 6U & 0x3FU)),
               static_cast<char>(0x80 | (code & 0x3FU))};
    } else {
      text += {static_cast<char>(0xF0 | (code >> 18U & 7U)), static_cast<char>(0x80 | (code >> 12U & 0x3FU)),
               static_cast<char>(0x80 | (code >> 6U & 0x3FU)), static_cast<char>(0x80 | (code & 0x3FU))};
    }
    if (code != 0) used = text.size();
  }
  text.resize(used);
  return text;
}

std::string NpyArray::dtype() const {
  const std::string bits = std::to_string(8 * element_bytes);
  switch (kind) {
    case 'b': return "bool";
    case 'u': return "uint" + bits;
    case 'i': return "int" + bits;
    case 'U':
    case 'S': return "texts";
    default: return "float" + bits;
  }
}

std::string NpyArray::shape_text() const {
  return "(" + joined(std::span(shape).first(dimensions), ", ") + (dimensions == 1 ? ",)" : ")");
}

bool starts_as_npy(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kNpyMagic.size() && std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
}

// The header's length takes 2 bytes in version 1, and 4 in versions 2 and 3.
NpyArray parse_npy_header(std::span<const std::byte> bytes, std::size_t& begin, NpyTexts texts) {
  if (!starts_as_npy(bytes)) throw npy_refusal("it does not begin as an array of NumPy's" + nature_as_cause(bytes));
  const auto byte = [&](std::size_t at) { return at < bytes.size() ? std::to_integer<std::uint32_t>(bytes[at]) : 0U; };
  const std::uint32_t version = byte(6);
  if (version < 1 || version > 3) throw npy_refusal("version " + std::to_string(version) + "; 1, 2 and 3 are read");
  begin = version == 1 ? 10 : 12;
  const std::uint64_t length = byte(8) | byte(9) << 8U | (version == 1 ? 0U : byte(10) << 16U | byte(11) << 24U);
  if (bytes.size() < begin || bytes.size() - begin < length)
    throw npy_refusal("damaged, or the file ends in its header");
  NpyArray array;
  NpyHeaderReader({reinterpret_cast<const char*>(bytes.data()) + begin, length}, texts).read(array);
  begin += length;
  return array;
}

NpyArray parse_npy(std::span<const std::byte> bytes, NpyTexts texts) {
  std::size_t begin = 0;
  NpyArray array = parse_npy_header(bytes, begin, texts);
  const std::uint64_t wanted = element_bytes_of(array);
  const auto rest = bytes.subspan(begin);
  if (rest.size() < wanted) {
    throw npy_refusal("the file ends early: " + std::to_string(rest.size()) + " of the " + std::to_string(wanted) +
                      " bytes of its elements are there");
  }
  array.elements = rest.first(wanted);
  return array;
}

// Omits NumPy's padding to 64 bytes, because such a header is made for each entry and read only by
// Forebay.
std::string header_of_entry(const NpyArray& array) {
  NpyArray entry = array;
  entry.dimensions = array.dimensions - 1;
  std::copy_n(array.shape.begin() + 1, entry.dimensions, entry.shape.begin());
  const std::string type = std::string(array.big_endian ? ">" : "<") + array.kind + std::to_string(array.element_bytes);
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + entry.shape_text() + ", }\n";
  std::string header(kNpyMagic);
  header += {'\1', '\0', static_cast<char>(text.size()), static_cast<char>(text.size() >> 8U)};
  return header + text;
}

// If neither order nor byte order differs, this is one copy. Otherwise an odometer of indices steps
// through the result in order.
void copy_in_c_order(const NpyArray& array, std::span<std::byte> to) noexcept {
  const std::size_t bytes = array.element_bytes;
  const bool swaps = array.big_endian && bytes > 1;
  if (!swaps && (!array.fortran_order || array.dimensions < 2)) {
    std::ranges::copy(array.elements, to.begin());
    return;
  }
  const auto steps = array.steps();
  std::array<std::int64_t, NpyArray::kMostDimensions> index{};
  for (std::size_t at = 0; at < array.count(); ++at) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < array.dimensions; ++i) from += index[i] * steps[i];
    const auto element = array.elements.subspan(static_cast<std::size_t>(from) * bytes, bytes);
    const auto place = to.subspan(at * bytes, bytes);
    if (swaps) {
      std::ranges::reverse_copy(element, place.begin());
    } else {
      std::ranges::copy(element, place.begin());
    }
    for (std::size_t i = array.dimensions; i-- > 0;) {
      if (++index[i] < array.shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace forebay::data

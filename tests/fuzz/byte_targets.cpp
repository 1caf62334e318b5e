#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "data/csv.hpp"
#include "data/image_size.hpp"
#include "data/npy.hpp"
#include "targets.hpp"

using namespace forebay::data;

// Formats that a single function reads from memory.
namespace forebay::fuzz {
namespace {

[[noreturn]] void broken(const std::string& promise) { throw std::logic_error(promise); }

// Rows as Python's csv module reads them: a second, plain reader, with one state per character.
struct PlainCsv {
  std::vector<std::vector<std::string>> rows;
  bool is_open = false;  // the text ends inside quotes
};

PlainCsv read_plainly(std::string_view text, char separator) {
  enum class In { row_begin, field_begin, plain, quoted, behind_quote };
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  PlainCsv read;
  std::vector<std::string> row;
  std::string field;
  In in = In::row_begin;
  const auto end_field = [&] { row.push_back(std::exchange(field, {})); };
  for (const char c : text) {
    const bool ends_row = c == '\n' || c == '\r';
    if (in == In::quoted) {
      if (c == '"')
        in = In::behind_quote;
      else
        field += c;
    } else if (in == In::behind_quote && c == '"') {
      field += c;
      in = In::quoted;
    } else if (ends_row) {
      if (in != In::row_begin) {
        end_field();
        read.rows.push_back(std::exchange(row, {}));
      }
      in = In::row_begin;
    } else if (c == separator) {
      end_field();
      in = In::field_begin;
    } else if (c == '"' && (in == In::row_begin || in == In::field_begin)) {
      in = In::quoted;
    } else {
      field += c;
      in = In::plain;
    }
  }
  read.is_open = in == In::quoted;
  if (in != In::row_begin) {
    end_field();
    read.rows.push_back(std::move(row));
  }
  return read;
}

}  // namespace

bool use_csv(std::string_view input) {
  if (input.empty()) return false;
  const char separator = std::string_view(",;\t|")[static_cast<unsigned char>(input.front()) % 4];
  const std::string_view text = input.substr(1);
  const PlainCsv expected = read_plainly(text, separator);
  std::vector<std::vector<std::string>> found;
  try {
    CsvRows rows(text, "input", separator);
    for (std::vector<std::string_view> fields; rows.next(fields);) found.emplace_back(fields.begin(), fields.end());
  } catch (const ConfigError&) {
    const bool is_text =
        text.find('\0') == std::string_view::npos && !text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF");
    if (is_text && !expected.is_open) broken("a table that is refused although it is one");
    return false;
  }
  if (expected.is_open || found != expected.rows) broken("rows that another reader does not see");
  return true;
}

std::vector<std::string> csv_seeds() {
  return {"0path,label\na.jpg,1\r\nb.jpg,2\n", "1a;\"b \"\"c\"\";d\n\n\"x\ny\"z;\n", "2a\tb\rc\td"};
}

bool use_exif(std::string_view input) {
  const std::span bytes = std::as_bytes(std::span(input));
  for (const int orientation : {exif_orientation(bytes), tiff_orientation(bytes)}) {
    if (orientation < 1 || orientation > 8) broken("an orientation that is none");
  }
  return exif_orientation(bytes) != 1 || tiff_orientation(bytes) != 1;
}

std::vector<std::string> exif_seeds() {
  using namespace std::string_literals;
  const std::string tiff = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s;
  return {tiff, "Exif\0\0"s + tiff, "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s};
}

bool use_npy_header(std::string_view input) {
  const std::span bytes = std::as_bytes(std::span(input));
  bool is_accepted = false;
  try {
    const NpyArray array = parse_npy(bytes, NpyTexts::read);
    for (std::size_t i = 0; array.has_texts() && i < array.count(); ++i) (void)array.text(i);
    (void)element_bytes_of(array);
    if (array.dimensions > 0) (void)header_of_entry(array);
    is_accepted = true;
  } catch (const Error&) {
  }
  try {
    std::size_t begin = 0;
    (void)parse_npy_header(bytes, begin);
    if (begin > bytes.size()) broken("an array begins behind its file");
  } catch (const Error&) {
  }
  return is_accepted;
}

std::vector<std::string> npy_header_seeds() {
  const std::string text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1, 1), }\n";
  const std::string names = "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }\n";
  const auto file = [](const std::string& header) {
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  };
  return {file(text) + std::string(8, 'x'), file(names) + std::string(16, 'x')};
}

}  // namespace forebay::fuzz

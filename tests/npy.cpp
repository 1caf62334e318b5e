#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "data/npy.hpp"
#include "dataset_support.hpp"
#include "sha256.hpp"
#include "support.hpp"

// Arrays in NumPy's format: what is read, what is refused and why.
namespace {

using forebay::NpyArray;
using forebay::parse_npy;
using forebay::testing::contains;
using forebay::testing::error_of;
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A file with this header and `count` bytes of elements: 0, 1, 2, ...
std::string file_of(const std::string& header, std::size_t count, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (unsigned i = 0; i < (version == 1 ? 2U : 4U); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xffU);
  file += header;
  for (std::size_t i = 0; i < count; ++i) file += static_cast<char>(i);
  return file;
}

std::string refusal(const std::string& file) {
  return error_of([&] { (void)parse_npy(bytes_of(file)); });
}

std::string in_c_order(const NpyArray& array) {
  std::string copy(array.elements.size(), '\0');
  forebay::copy_in_c_order(array, std::as_writable_bytes(std::span(copy)));
  return copy;
}

}  // namespace

TEST_CASE("an array is copied in C order and this machine's byte order") {
  const std::string plain = file_of("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", 12);
  CHECK(parse_npy(bytes_of(plain)).dtype() == "int16");
  CHECK(parse_npy(bytes_of(plain)).shape_text() == "(2, 3)");
  CHECK(in_c_order(parse_npy(bytes_of(plain))) == std::string("\0\1\2\3\4\5\6\7\x08\x09\x0a\x0b", 12));
  const std::string fortran = file_of("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", 12);
  CHECK(in_c_order(parse_npy(bytes_of(fortran))) == std::string("\0\1\4\5\x08\x09\2\3\6\7\x0a\x0b", 12));
  const std::string big = file_of("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", 12);
  CHECK(in_c_order(parse_npy(bytes_of(big))) == std::string("\1\0\5\4\x09\x08\3\2\7\6\x0b\x0a", 12));
}

TEST_CASE("headers that Python may write are read in all versions") {
  for (const int version : {1, 2, 3}) {
    const std::string file = file_of("{ \"shape\" :(3L,), 'fortran_order':False,'descr':'|u1'}   \n", 5, version);
    const NpyArray array = parse_npy(bytes_of(file));
    CHECK(array.dimensions == 1);
    CHECK(array.count() == 3);
    CHECK(array.shape_text() == "(3,)");
  }
  CHECK(parse_npy(bytes_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4))).count() == 1);
  CHECK(parse_npy(bytes_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", 0))).count() == 0);
}

TEST_CASE("what is refused says why") {
  const auto header = [](const std::string& type, const std::string& shape) {
    return "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }";
  };
  CHECK(contains(refusal(file_of(header("'|O'", "(2,)"), 16)), "pickled Python objects, which are never loaded"));
  CHECK(contains(refusal(file_of(header("[('a', '<i4')]", "(2,)"), 16)), "array of records"));
  CHECK(contains(refusal(file_of(header("'<U5'", "(2,)"), 40)), "elements of type \"<U5\""));
  CHECK(contains(refusal(file_of(header("'<c8'", "(2,)"), 16)), "elements of type \"<c8\""));
  CHECK(contains(refusal(file_of(header("'<i3'", "(2,)"), 6)), "elements of type \"<i3\""));
  CHECK(contains(refusal(file_of(header("'<i4'", "(2, 2)"), 15)), "the file ends early: 15 of the 16 bytes"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(-1, 2)"), 8)), "damaged header: the shape"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(99999999999999999999,)"), 8)), "damaged header: the shape"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(4294967296, 4294967296)"), 8)), "larger than any file"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(1,1,1,1,1,1,1,1,1)"), 8)), "more than 8 dimensions"));
  CHECK(contains(refusal(file_of("{'descr': '<i4'}", 8)), "must be there once each"));
  CHECK(contains(refusal(file_of("{'descr': '<i4', 'descr': '<i4', 'shape': (1,)}", 8)), "must be there once each"));
  CHECK(contains(refusal(file_of("__import__('os')", 8)), "damaged header"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(1,)"), 8, 9)), "version 9"));
  CHECK(contains(refusal("\x93NUMPY\1"), "ends in its header"));
  CHECK(contains(refusal("hello"), "does not begin as an array"));
  std::string long_header = file_of(header("'<i4'", "(1,)"), 4);
  long_header[9] = '\x7f';
  CHECK(contains(refusal(long_header), "ends in its header"));
}

TEST_CASE("arrays that other programs wrote are what truth says") {
  const auto data = forebay::testing::real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
  std::ifstream table(*data / "truth/made.tsv");
  std::size_t read = 0;
  std::size_t refused = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("made/npy/")) continue;
    const std::string path = line.substr(0, line.find('\t'));
    CAPTURE(path);
    std::ifstream file(*data / path, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const std::string reason = refusal(content);
    CAPTURE(reason);
    const bool must_fail = contains(line, "\tcorrupt\t") || contains(line, "\trefuse\t");
    if (must_fail) CHECK(reason != "");
    if (contains(line, "\tvalid\t")) CHECK(reason == "");
    (reason.empty() ? read : refused) += 1;
    const auto sum = line.find("sha256 ");
    if (!reason.empty() || sum == std::string::npos) continue;
    const NpyArray array = parse_npy(bytes_of(content));
    // Of the elements as they stand in the file; of Fortran order as C order has them.
    const std::string stored(reinterpret_cast<const char*>(array.elements.data()), array.elements.size());
    CHECK(forebay::testing::sha256(array.fortran_order ? in_c_order(array) : stored) == line.substr(sum + 7, 64));
  }
  CHECK(read > 0);
  CHECK(refused > 0);
}

#pragma once

// NumPy's files: arrays, and archives of them, with anything that can be wrong in an archive.
#include <zlib.h>

#include "support.hpp"

namespace forebay::testing {

// Compresses `bytes` with zlib. `window_bits` selects the wrapper: MAX_WBITS + 16 for gzip,
// -MAX_WBITS for none, as in a zip archive.
inline std::string deflated(std::string bytes, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string npy_of(const std::string& type, const std::string& shape, const std::string& elements,
                          bool fortran = false) {
  const std::string text =
      "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + little(text.size(), 2) + text + elements;
}

struct ZipMember {
  std::string name;
  std::string contents;
};
struct ZipRecipe {
  bool deflate = false;
  bool wide = false;  // Zip64 fields for sizes, as numpy.savez writes them, and for the directory
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  // 0: as `deflate` says
  std::int64_t claims = -1;  // if >= 0, the size of the first member according to the directory
  bool overlap = false;      // the second member points to the first's data
  std::string comment = {};
};

inline std::string extra_of(const ZipRecipe& recipe, std::uint64_t bytes, std::uint64_t packed) {
  return recipe.wide ? little(1, 2) + little(16, 2) + little(bytes, 8) + little(packed, 8) : "";
}

inline std::string zip_of(const std::vector<ZipMember>& members, const ZipRecipe& recipe = {}) {
  std::string file;
  std::string directory;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& [name, contents] = members[i];
    const std::string packed = recipe.deflate ? deflated(contents, -MAX_WBITS) : contents;
    const std::uint64_t bytes =
        i == 0 && recipe.claims >= 0 ? static_cast<std::uint64_t>(recipe.claims) : contents.size();
    const std::uint64_t at = i == 1 && recipe.overlap ? 0 : file.size();
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(contents.data()), static_cast<uInt>(contents.size()));
    const unsigned method = recipe.method != 0 ? recipe.method : recipe.deflate ? 8 : 0;
    const std::string extra = extra_of(recipe, bytes, packed.size());
    const std::uint64_t in_32 = recipe.wide ? 0xffffffff : bytes;
    const std::string common = little(20, 2) + little(recipe.flags, 2) + little(method, 2) + little(0, 4) +
                               little(sum, 4) + little(recipe.wide ? 0xffffffff : packed.size(), 4) + little(in_32, 4) +
                               little(name.size(), 2) + little(extra.size(), 2);
    directory += "PK\1\2" + little(45, 2) + common + little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                 little(at, 4) + name + extra;
    file += "PK\3\4" + common + name + extra + packed;
  }
  const std::uint64_t begin = file.size();
  file += directory;
  if (recipe.wide) {
    const std::uint64_t at = file.size();
    file += "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(members.size(), 8) +
            little(members.size(), 8) + little(directory.size(), 8) + little(begin, 8);
    file += "PK\6\7" + little(0, 4) + little(at, 8) + little(1, 4);
  }
  const std::uint64_t count = recipe.wide ? 0xffff : members.size();
  file += "PK\5\6" + little(0, 4) + little(count, 2) + little(count, 2) +
          little(recipe.wide ? 0xffffffff : directory.size(), 4) + little(recipe.wide ? 0xffffffff : begin, 4) +
          little(recipe.comment.size(), 2) + recipe.comment;
  return file;
}

inline std::string png_number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  return bytes;
}

inline std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string covered = type + content;
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size()));
  return png_number(static_cast<std::uint32_t>(content.size())) + covered + png_number(static_cast<std::uint32_t>(crc));
}

// A PNG of one grey pixel.
inline std::string tiny_png(int grey) {
  std::array<Bytef, 64> packed{};
  const std::array<Bytef, 2> row{0, static_cast<Bytef>(grey)};
  uLongf length = packed.size();
  if (::compress(packed.data(), &length, row.data(), row.size()) != Z_OK) return {};
  return std::string("\x89PNG\r\n\x1A\n") +
         png_chunk("IHDR", png_number(1) + png_number(1) + std::string("\x08\0\0\0\0", 5)) +
         png_chunk("IDAT", std::string(reinterpret_cast<const char*>(packed.data()), length)) + png_chunk("IEND", "");
}

}  // namespace forebay::testing

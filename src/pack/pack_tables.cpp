// The tables of a pack as bytes, and back. Packing stores them once per dataset; each process that
// reads the pack parses them, and every packed file names them by their checksum. Functions without
// state.

#include "pack_tables.hpp"

#include <algorithm>
#include <array>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "byte_reader.hpp"
#include "header_parts.hpp"
#include "table_set.hpp"

namespace forebay::pack {
namespace {

constexpr std::array kTablesSignature{std::byte{0xfb}, std::byte{'P'}, std::byte{'T'}, std::byte{1}};
// A choice; a byte per image names its set.
constexpr std::size_t kMostSets = 64;
constexpr std::size_t kChecksum = sizeof(std::uint32_t);

// Lengths that no prefix code has would make the decoding table inconsistent, so they are refused
// here once.
StreamLengths read_lengths(ByteReader& reader) {
  StreamLengths lengths{};
  for (auto& kind : lengths) {
    for (CodeLengths& code : kind) {
      for (std::size_t symbol = 0; symbol < kSymbols; symbol += 2) {
        const unsigned both = reader.byte();
        code[symbol] = static_cast<std::uint8_t>(both & 15U);
        code[symbol + 1] = static_cast<std::uint8_t>(both >> 4U);
      }
      if (!is_prefix_code(code)) throw SampleError("a code is none");
    }
  }
  return lengths;
}

std::uint32_t read_key(std::span<const std::byte> bytes) noexcept {
  std::uint32_t key = 0;
  for (std::size_t i = 0; i < kChecksum; ++i) key |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  return key;
}

}  // namespace

// The bytes: signature and version; the number of sets; for each set all lengths, two in a byte;
// parts of headers, each with its length; a CRC32C of all this, which is the key. Everything that
// is read is bounded: a damaged file ends in an Error that says what is wrong.
PackTables PackTables::from_bytes(std::span<const std::byte> bytes) {
  const std::string damaged = "damaged tables of packed JPEG files: ";
  if (bytes.size() < kTablesSignature.size() + kChecksum ||
      !std::ranges::equal(kTablesSignature, bytes.first(kTablesSignature.size()))) {
    throw Error("not tables of packed JPEG files, or those of a later version of Forebay");
  }
  const auto content = bytes.first(bytes.size() - kChecksum);
  PackTables tables;
  tables.key_ = crc32c(content);
  if (read_key(bytes.last(kChecksum)) != tables.key_) throw Error(damaged + "their checksum differs");
  try {
    ByteReader reader(content.subspan(kTablesSignature.size()));
    const std::size_t sets = reader.byte();
    if (sets == 0 || sets > kMostSets) throw SampleError("there are " + std::to_string(sets) + " sets");
    for (std::size_t i = 0; i < sets; ++i) {
      tables.sets_.push_back(std::make_shared<const TableSet>(read_lengths(reader)));
    }
    std::vector<std::vector<std::byte>> parts(std::min<std::size_t>(reader.number(), HeaderParts::kMostParts));
    for (auto& part : parts) {
      const auto of_part = reader.bytes(reader.number());
      part.assign(of_part.begin(), of_part.end());
    }
    if (!reader.rest().empty()) throw SampleError("something follows them");
    tables.header_parts_ = std::make_shared<const HeaderParts>(std::move(parts));
  } catch (const SampleError& error) {
    throw Error(damaged + error.what());
  }
  tables.bytes_ = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return tables;
}

std::vector<std::byte> PackTables::assemble(const std::vector<StreamLengths>& sets, const HeaderParts& parts) {
  std::vector<std::byte> out(kTablesSignature.begin(), kTablesSignature.end());
  out.push_back(static_cast<std::byte>(sets.size()));
  for (const StreamLengths& set : sets) {
    for (const auto& kind : set) {
      for (const CodeLengths& code : kind) {
        for (std::size_t symbol = 0; symbol < kSymbols; symbol += 2) {
          out.push_back(static_cast<std::byte>(code[symbol] | code[symbol + 1] << 4U));
        }
      }
    }
  }
  put_varint(out, static_cast<std::uint32_t>(parts.parts().size()));
  for (const auto& part : parts.parts()) {
    put_varint(out, static_cast<std::uint32_t>(part.size()));
    put_bytes(out, part);
  }
  const std::uint32_t key = crc32c(out);
  for (std::size_t i = 0; i < kChecksum; ++i) out.push_back(static_cast<std::byte>(key >> (8 * i)));
  return out;
}

}  // namespace forebay::pack

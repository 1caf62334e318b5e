#pragma once

#include <zlib.h>

#include "base/crc32c.hpp"
#include "data/pack_shard.hpp"
#include "support.hpp"
#include "zip_files.hpp"

// Shards of a packed dataset as bytes, with modifications that another program could have made.
namespace forebay::testing {

// The shard with a modified header and a matching checksum.
template <typename Change>
std::string with_header(std::string bytes, Change&& change) {
  data::PackHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  const std::vector<std::byte> block = data::pack_header_block(header);
  std::memcpy(bytes.data(), block.data(), block.size());
  return bytes;
}

inline std::string deflated_part(const std::string& raw) { return deflated(raw, MAX_WBITS); }

inline std::string inflated_part(std::string_view compressed, std::uint64_t raw_bytes) {
  std::string raw(raw_bytes, '\0');
  uLongf size = raw.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                                  reinterpret_cast<const Bytef*>(compressed.data()), compressed.size());
  if (result != Z_OK || size != raw_bytes) throw std::runtime_error("uncompress");
  return raw;
}

// The shard with one part replaced, and matching checksums. `compressed` has `raw_bytes` bytes when
// inflated.
inline std::string with_part(const std::string& bytes, data::PackPart data::PackHeader::*part,
                             std::string_view compressed, std::uint64_t raw_bytes) {
  std::string changed = bytes;
  changed.resize(data::rounded_up(changed.size(), data::kPackBlock));
  const std::uint64_t at = changed.size();
  changed.append(compressed);
  changed.resize(data::rounded_up(changed.size(), data::kPackBlock));
  return with_header(changed, [&](data::PackHeader& header) {
    header.*part = {.offset = at,
                    .bytes = compressed.size(),
                    .raw_bytes = raw_bytes,
                    .crc = crc32c(std::as_bytes(std::span(compressed)))};
    header.file_bytes = changed.size();
  });
}

}  // namespace forebay::testing

#pragma once

// The ranges in the text of a state, as docs/state.md describes them.

#include <zlib.h>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::testing {

// What `left` holds: for each member of a range a list of differences.
inline nlohmann::ordered_json unpacked(const nlohmann::ordered_json& left) {
  const std::string packed = from_base64(left.at("zlib").get<std::string>()).value();
  std::string text(left.at("bytes").get<std::size_t>(), '\0');
  uLongf size = text.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result != Z_OK || size != text.size()) throw std::runtime_error("left does not hold what it says");
  return nlohmann::ordered_json::parse(text);
}

inline nlohmann::ordered_json packed(const std::string& text) {
  std::string packed(::compressBound(text.size()), '\0');
  uLongf size = packed.size();
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                 text.size()) != Z_OK) {
    throw std::runtime_error("zlib does not compress");
  }
  packed.resize(size);
  return {{"bytes", text.size()}, {"zlib", base64(packed)}};
}

// The document with the checksum that it should have.
inline std::string sealed(nlohmann::ordered_json json) {
  json.erase("checksum");
  std::string text = json.dump();
  text.pop_back();
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text + ",\"checksum\":\"" + digits + "\"}\n";
}

}  // namespace forebay::testing

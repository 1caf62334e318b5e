#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

// SHA-256 (FIPS 180-4) and its HMAC (RFC 2104), for signatures of a few hundred bytes. Written here because every wheel
// would otherwise have to contain one more library.
namespace forebay::store {

using Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Digest sha256(std::string_view text) noexcept;
[[nodiscard]] Digest hmac_sha256(std::string_view key, std::string_view text);
// The digest as text, to be hashed again.
[[nodiscard]] std::string_view view(const Digest& digest) noexcept;
[[nodiscard]] std::string hex(const Digest& digest);

}  // namespace forebay::store

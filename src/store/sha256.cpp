#include "sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace forebay::store {
namespace {

constexpr std::size_t kHashBlock = 64;

class Sha256 {
 public:
  void block(const char* bytes) noexcept {
    static constexpr std::array<std::uint32_t, 64> kRounds{
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t k = 0; k < 4; ++k) w[i] = (w[i] << 8U) | static_cast<unsigned char>(bytes[4 * i + k]);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
      const std::uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
  }

  // The last bytes, of `all` that there were.
  Digest end(std::string_view rest, std::uint64_t all) noexcept {
    std::array<char, 2 * kHashBlock> last{};
    std::ranges::copy(rest, last.begin());
    last[rest.size()] = static_cast<char>(0x80);
    const std::size_t blocks = rest.size() + 9 > kHashBlock ? 2 : 1;
    for (std::size_t i = 0; i < 8; ++i) last[blocks * kHashBlock - 1 - i] = static_cast<char>((all * 8) >> (8 * i));
    for (std::size_t i = 0; i < blocks; ++i) block(last.data() + i * kHashBlock);
    Digest digest{};
    for (std::size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
  }

  Digest hash(std::string_view text, std::uint64_t before = 0) noexcept {
    const std::uint64_t all = before + text.size();
    for (; text.size() >= kHashBlock; text.remove_prefix(kHashBlock)) block(text.data());
    return end(text, all);
  }

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

}  // namespace

Digest sha256(std::string_view text) noexcept { return Sha256().hash(text); }

Digest hmac_sha256(std::string_view key, std::string_view text) {
  const Digest short_key = key.size() > kHashBlock ? sha256(key) : Digest{};
  if (key.size() > kHashBlock) key = view(short_key);
  const auto keyed = [key](char pad, std::string_view what) {
    std::array<char, kHashBlock> block;
    block.fill(pad);
    for (std::size_t i = 0; i < key.size(); ++i) block[i] = static_cast<char>(block[i] ^ key[i]);
    Sha256 hash;
    hash.block(block.data());
    return hash.hash(what, kHashBlock);
  };
  const Digest inner = keyed(0x36, text);
  return keyed(0x5c, view(inner));
}

std::string_view view(const Digest& digest) noexcept {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  return text;
}

}  // namespace forebay::store

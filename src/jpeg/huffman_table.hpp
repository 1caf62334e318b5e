#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::jpeg {

// A Huffman code as stored in JPEG files: the number of codes of each length, and their symbols, in order of length.
struct HuffmanCode {
  static constexpr std::size_t kLongest = 16;  // bits
  static constexpr std::size_t kMost = 256;    // codes

  std::array<std::uint8_t, kLongest + 1> counts{};  // counts[0] has no meaning
  std::array<std::uint8_t, kMost> symbols{};

  friend bool operator==(const HuffmanCode&, const HuffmanCode&) = default;
};

enum class HuffmanKind : std::uint8_t { dc, ac };

// A look-up table for the first bits of a stream: one look usually gives a code and the value that follows it.
//
// A symbol states the number of preceding zeros, and the number of bits of the value. In a block, a symbol advances the
// position by its zeros and 1, or by kEndOfBlock if no more coefficients follow.
class HuffmanTable {
 public:
  static constexpr unsigned kBits = 11;  // looked up at once
  static constexpr std::uint32_t kEndOfBlock = 128;
  // Beyond all positions. If a look at several symbols gives this, not even one of them is complete.
  static constexpr std::uint32_t kNothing = 255;

  // A symbol and its value, or only the symbol.
  struct One {
    std::uint32_t packed = 0;

    // Bits to consume, at most kBits; 0 if these bits are not enough.
    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return packed & 0xffU; }
    // If bits() is not 0: how far the position advances, and the value at the new position, 0 if none.
    [[nodiscard]] constexpr std::uint32_t step() const noexcept { return packed >> 8U & 0xffU; }
    [[nodiscard]] constexpr std::int16_t value() const noexcept { return static_cast<std::int16_t>(packed >> 16U); }
    // Otherwise: the length of the code, 0 if it is longer than kBits; and its symbol.
    [[nodiscard]] constexpr std::uint32_t length() const noexcept { return packed >> 8U & 0xffU; }
    [[nodiscard]] constexpr std::uint32_t symbol() const noexcept { return packed >> 16U; }
  };
  // One or two symbols. If it is one, both values and both steps are its own.
  struct Two {
    std::uint64_t packed = 0;

    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return static_cast<std::uint32_t>(packed & 0xffU); }
    // To the first one, and over all.
    [[nodiscard]] constexpr std::uint32_t first() const noexcept {
      return static_cast<std::uint32_t>(packed >> 8U & 0xffU);
    }
    [[nodiscard]] constexpr std::uint32_t step() const noexcept {
      return static_cast<std::uint32_t>(packed >> 16U & 0xffU);
    }
    [[nodiscard]] constexpr std::int16_t first_value() const noexcept {
      return static_cast<std::int16_t>(packed >> 32U);
    }
    [[nodiscard]] constexpr std::int16_t value() const noexcept { return static_cast<std::int16_t>(packed >> 48U); }
  };
  // All complete symbols, without their values.
  struct Many {
    std::uint16_t packed = 0;

    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return packed & 0xffU; }
    [[nodiscard]] constexpr std::uint32_t step() const noexcept { return packed >> 8U; }
  };

  // Bits of a code, and its symbol.
  struct Found {
    std::uint32_t length = 0;  // 0: no code begins like this
    std::uint32_t symbol = 0;
  };

  // False if libjpeg would refuse the table.
  [[nodiscard]] bool build(const HuffmanCode& code, HuffmanKind kind);

  // For AC codes: announces that many blocks will be decoded with it. Once that pays off, looks at several symbols
  // become available.
  void expect(std::int64_t blocks) noexcept;
  [[nodiscard]] bool is_prepared() const noexcept { return is_prepared_; }

  // By the next kBits bits, the first one on top.
  [[nodiscard]] One one(std::uint64_t bits) const noexcept { return one_[bits]; }
  // REQUIRES: is_prepared()
  [[nodiscard]] Two two(std::uint64_t bits) const noexcept { return two_[bits]; }
  [[nodiscard]] Many many(std::uint64_t bits) const noexcept { return many_[bits]; }

  // The code at the beginning of these 16 bits. REQUIRES: it has more than kBits bits, if there is one.
  [[nodiscard]] Found find_long(std::uint32_t bits) const noexcept;

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << kBits;
  static constexpr std::int64_t kWorthwhile = 600;  // blocks

  void add(std::uint32_t code, std::uint32_t length, std::uint32_t symbol, HuffmanKind kind) noexcept;
  void prepare() noexcept;
  [[nodiscard]] One after(std::size_t index, std::uint32_t bits) const noexcept;
  [[nodiscard]] Two two_of(std::size_t index) const noexcept;
  [[nodiscard]] Many many_of(std::size_t index) const noexcept;

  std::array<One, kEntries> one_{};
  std::array<Two, kEntries> two_{};
  std::array<Many, kEntries> many_{};
  bool is_prepared_ = false;   // these two are filled
  std::int64_t expected_ = 0;  // blocks
  // By length: what all codes up to this length are below, as 16 bits; and where symbols of this length begin, less the
  // first code of it.
  std::array<std::uint32_t, HuffmanCode::kLongest + 1> below_{};
  std::array<std::int32_t, HuffmanCode::kLongest + 1> first_{};
  std::array<std::uint8_t, HuffmanCode::kMost> symbols_{};
};

// How far a symbol of an AC code advances the position.
[[nodiscard]] constexpr std::uint32_t step_of(std::uint32_t zeros, std::uint32_t size) noexcept {
  constexpr std::uint32_t kSixteenZeros = 15;  // stands for them where no value follows
  if (size > 0) return zeros + 1;
  return zeros == kSixteenZeros ? kSixteenZeros + 1 : HuffmanTable::kEndOfBlock;
}

// The value that `size` bits stand for: those with a leading 0 are negative. REQUIRES: size is 0 to 15, and bits <
// 2^size.
[[nodiscard]] constexpr std::int32_t value_of(std::uint32_t bits, std::uint32_t size) noexcept {
  const auto value = static_cast<std::int32_t>(bits);
  if (size == 0 || bits >> (size - 1) != 0) return value;
  return value - (1 << size) + 1;
}

}  // namespace forebay::jpeg

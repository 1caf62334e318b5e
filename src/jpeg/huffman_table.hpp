#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::jpeg {

// A Huffman code as JPEG files store it: the number of codes of each length, and the symbols in
// order of length.
struct HuffmanCode {
  static constexpr std::size_t kLongest = 16;  // bits
  static constexpr std::size_t kMost = 256;    // codes

  std::array<std::uint8_t, kLongest + 1> counts{};  // counts[0] is unused
  std::array<std::uint8_t, kMost> symbols{};

  friend bool operator==(const HuffmanCode&, const HuffmanCode&) = default;
};

enum class HuffmanKind : std::uint8_t { dc, ac };

// A table indexed by the next bits of a stream; usually one look-up gives a code and the value that
// follows it. Belongs to one thread.
//
// A symbol states how many zeros precede a value, and how many bits the value has. It advances the
// position in the block by the zeros plus 1, or by kEndOfBlock if no more coefficients follow.
class HuffmanTable {
 public:
  static constexpr unsigned kBits = 11;  // bits per look-up
  static constexpr std::uint32_t kEndOfBlock = 128;
  // The step of a look-up for several symbols that finds not even one complete; larger than any
  // position.
  static constexpr std::uint32_t kNothing = 255;

  // A symbol with its value, or only the symbol.
  struct One {
    std::uint32_t packed = 0;

    // Bits to consume, at most kBits; 0 if kBits bits do not hold symbol and value.
    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return packed & 0xffU; }
    // If bits() is not 0: how far the position advances, and the value at the new position (0 if
    // none).
    [[nodiscard]] constexpr std::uint32_t step() const noexcept { return packed >> 8U & 0xffU; }
    [[nodiscard]] constexpr std::int16_t value() const noexcept { return static_cast<std::int16_t>(packed >> 16U); }
    // If bits() is 0: the length of the code, which is 0 if it exceeds kBits, and its symbol.
    [[nodiscard]] constexpr std::uint32_t length() const noexcept { return packed >> 8U & 0xffU; }
    [[nodiscard]] constexpr std::uint32_t symbol() const noexcept { return packed >> 16U; }
  };
  // One or two symbols. For one symbol, both values and both steps are the same.
  struct Two {
    std::uint64_t packed = 0;

    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return static_cast<std::uint32_t>(packed & 0xffU); }
    // How far the first symbol advances the position, and both together.
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

  // The length of a code, and its symbol.
  struct Found {
    std::uint32_t length = 0;  // 0: no code begins like this
    std::uint32_t symbol = 0;
  };

  // Returns false if libjpeg would refuse the table.
  [[nodiscard]] bool build(const HuffmanCode& code, HuffmanKind kind);

  // For AC codes: announces that so many blocks will be decoded. Once they are worth it, look-ups
  // of several symbols become available.
  void expect(std::int64_t blocks) noexcept;
  [[nodiscard]] bool is_prepared() const noexcept { return is_prepared_; }

  // `bits`: the next kBits bits, the first one on top.
  [[nodiscard]] One one(std::uint64_t bits) const noexcept { return one_[bits]; }
  // REQUIRES: is_prepared()
  [[nodiscard]] Two two(std::uint64_t bits) const noexcept { return two_[bits]; }
  [[nodiscard]] Many many(std::uint64_t bits) const noexcept { return many_[bits]; }

  // The code at the beginning of these 16 bits. REQUIRES: it is longer than kBits bits, if there is
  // one.
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
  bool is_prepared_ = false;   // two_ and many_ are filled
  std::int64_t expected_ = 0;  // blocks
  // By length: the end of the codes of up to this length, left-aligned in 16 bits; and the index of
  // this length's first symbol, minus its first code.
  std::array<std::uint32_t, HuffmanCode::kLongest + 1> below_{};
  std::array<std::int32_t, HuffmanCode::kLongest + 1> first_{};
  std::array<std::uint8_t, HuffmanCode::kMost> symbols_{};
};

// How far a symbol of an AC code advances the position.
[[nodiscard]] constexpr std::uint32_t step_of(std::uint32_t zeros, std::uint32_t size) noexcept {
  constexpr std::uint32_t kSixteenZeros = 15;  // stands for sixteen zeros if no value follows
  if (size > 0) return zeros + 1;
  return zeros == kSixteenZeros ? kSixteenZeros + 1 : HuffmanTable::kEndOfBlock;
}

// The value that `size` bits represent; a leading 0 means negative. REQUIRES: size is 0 to 15; bits
// < 2^size.
[[nodiscard]] constexpr std::int32_t value_of(std::uint32_t bits, std::uint32_t size) noexcept {
  const auto value = static_cast<std::int32_t>(bits);
  if (size == 0 || bits >> (size - 1) != 0) return value;
  return value - (1 << size) + 1;
}

}  // namespace forebay::jpeg

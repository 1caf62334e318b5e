#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::pack {

inline constexpr std::size_t kSymbols = 256;
// The longest code word in bits; also the bits of one look-up.
inline constexpr unsigned kSymbolBits = 11;

using SymbolCounts = std::array<std::uint64_t, kSymbols>;
using CodeLengths = std::array<std::uint8_t, kSymbols>;  // bits; 0: the symbol has no code word

// The optimal prefix code for symbols with these counts, with no word longer than kSymbolBits. Symbols with count 0
// have no word; a single symbol has 1 bit.
[[nodiscard]] CodeLengths shortest_code(const SymbolCounts& counts);

// Whether these lengths, none above kSymbolBits, form a prefix code.
[[nodiscard]] bool is_prefix_code(const CodeLengths& lengths) noexcept;

// The words, those of a length in the order of the symbols; their first bit is the lowest.
using CodeWords = std::array<std::uint16_t, kSymbols>;
[[nodiscard]] CodeWords code_words(const CodeLengths& lengths) noexcept;

// A look-up table for the next kSymbolBits bits of a stream: all complete symbols in them, up to three. A code's table
// takes a quarter of a first-level cache, because there are many codes.
class SymbolTable {
 public:
  static constexpr std::size_t kMost = 3;
  static constexpr std::size_t kEntries = std::size_t{1} << kSymbolBits;

  // The symbols are copied together with the last byte, which costs a load instead of arithmetic.
  struct Entry {
    std::array<std::uint8_t, kMost> symbols{};
    std::uint8_t bits_and_count = 0;

    // Of all symbols: at least 1.
    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_and_count & 63U; }
    // 1 to kMost.
    [[nodiscard]] constexpr std::uint32_t count() const noexcept { return bits_and_count >> 6U; }
  };
  static_assert(sizeof(Entry) == 4);

  // Bits that begin no word stand for symbol 0. REQUIRES: is_prefix_code(lengths)
  explicit SymbolTable(const CodeLengths& lengths) noexcept;

  // By the next kSymbolBits bits, the first one the lowest.
  [[nodiscard]] const Entry& at(std::uint64_t bits) const noexcept { return entries_[bits]; }
  // Of the first symbol alone. REQUIRES: it is that of at()
  [[nodiscard]] std::uint32_t bits_of_first(const Entry& entry) const noexcept { return lengths_[entry.symbols[0]]; }

 private:
  alignas(64) std::array<Entry, kEntries> entries_{};
  CodeLengths lengths_;
};

}  // namespace forebay::pack

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::pack {

inline constexpr std::size_t kSymbols = 256;
// The length of the longest code word, and of a look-up, in bits.
inline constexpr unsigned kSymbolBits = 11;

using SymbolCounts = std::array<std::uint64_t, kSymbols>;
using CodeLengths = std::array<std::uint8_t, kSymbols>;  // bits; 0: the symbol has no code word

// The optimal prefix code for symbols with these counts, in which no word is longer than
// kSymbolBits. A symbol with count 0 has no word; a single symbol has 1 bit.
[[nodiscard]] CodeLengths shortest_code(const SymbolCounts& counts);

// Whether these lengths form a prefix code without words longer than kSymbolBits.
[[nodiscard]] bool is_prefix_code(const CodeLengths& lengths) noexcept;

// The code words. Words of one length are in the order of the symbols; the first bit of a word is
// the lowest.
using CodeWords = std::array<std::uint16_t, kSymbols>;
[[nodiscard]] CodeWords code_words(const CodeLengths& lengths) noexcept;

// A look-up table for the next kSymbolBits bits of a stream: all complete symbols in them, up to
// three. The table of one code takes only a quarter of a first-level cache, because there are many
// codes.
class SymbolTable {
 public:
  static constexpr std::size_t kMost = 3;
  static constexpr std::size_t kEntries = std::size_t{1} << kSymbolBits;

  // Symbols and the last byte are copied together, which costs one load and no arithmetic.
  struct Entry {
    std::array<std::uint8_t, kMost> symbols{};
    std::uint8_t bits_and_count = 0;

    // The length of all symbols together; at least 1.
    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_and_count & 63U; }
    // The number of symbols, 1 to kMost.
    [[nodiscard]] constexpr std::uint32_t count() const noexcept { return bits_and_count >> 6U; }
  };
  static_assert(sizeof(Entry) == 4);

  // Bits that begin no word stand for symbol 0. REQUIRES: is_prefix_code(lengths).
  explicit SymbolTable(const CodeLengths& lengths) noexcept;

  // `bits`: the next kSymbolBits bits, the first one lowest.
  [[nodiscard]] const Entry& at(std::uint64_t bits) const noexcept { return entries_[bits]; }
  // The length of the first symbol of an entry. REQUIRES: the entry is from at().
  [[nodiscard]] std::uint32_t bits_of_first(const Entry& entry) const noexcept { return lengths_[entry.symbols[0]]; }

 private:
  alignas(64) std::array<Entry, kEntries> entries_{};
  CodeLengths lengths_;
};

}  // namespace forebay::pack

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbol_code.hpp"

namespace forebay::pack {

// Packed coefficients are streams of one-byte symbols, in this order.
enum class Stream : std::uint8_t {
  dc,       // each block's first coefficient, minus its neighbour's
  groups,   // which eighths of a block's zigzag have non-zero coefficients (except the first)
  mask0,    // for each block with any in the first eighth: where
  mask1,    // likewise in the second
  mask2,    // likewise in the third
  masks,    // likewise in each later eighth
  values0,  // the coefficients of the first eighth
  values1,  // of the second
  values2,  // of all others
};
inline constexpr std::size_t kStreams = 9;

// Kind 0: blocks of the first component. Kind 1: blocks of all others.
inline constexpr std::size_t kBlockKinds = 2;

// How a stream stores a symbol for which its code has no word: as an escape symbol, with the value
// stored separately.
enum class Escape : std::uint8_t {
  none,   // every symbol has a word
  value,  // differences and coefficients: symbol 0x80, and 16 bits
  mask,   // masks: symbol 0, and 8 bits
};
[[nodiscard]] constexpr Escape escape_of(Stream stream) noexcept {
  if (stream == Stream::groups) return Escape::none;
  return stream >= Stream::mask0 && stream <= Stream::masks ? Escape::mask : Escape::value;
}
inline constexpr std::uint8_t kEscapedValue = 0x80;
inline constexpr std::uint8_t kEscapedMask = 0;

template <class T>
using PerStream = std::array<std::array<T, kStreams>, kBlockKinds>;

using StreamCounts = PerStream<SymbolCounts>;
using StreamLengths = PerStream<CodeLengths>;

// The codes of all streams. Immutable; any thread may use it.
struct TableSet {
  struct Code {
    CodeLengths lengths;
    CodeWords words;
    SymbolTable table;

    explicit Code(const CodeLengths& of) noexcept : lengths(of), words(code_words(of)), table(of) {}
  };

  // REQUIRES: is_prefix_code() for each of them.
  explicit TableSet(const StreamLengths& lengths);

  [[nodiscard]] const Code& code(std::size_t kind, Stream stream) const noexcept {
    return codes[kind * kStreams + static_cast<std::size_t>(stream)];
  }

  std::vector<Code> codes;  // kBlockKinds * kStreams
};

// Codes for streams with these counts, with which every stream of every file can be written.
[[nodiscard]] StreamLengths codes_for(const StreamCounts& counts);

// The length in bits of streams with these counts, escapes included.
[[nodiscard]] double bits_of(const StreamCounts& counts, const TableSet& set) noexcept;

// Approximate statistics of the streams of photographs.
[[nodiscard]] StreamCounts usual_counts();

}  // namespace forebay::pack

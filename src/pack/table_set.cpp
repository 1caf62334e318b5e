// From counts of symbols to the codes of all streams of a set. Each code has an escape for symbols
// that are too rare to deserve a word. How rare that is depends on the counts, so several
// thresholds are tried. bits_of() is the cost of a file with given codes, by which training and
// packing compare. Pure functions.

#include "table_set.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace forebay::pack {
namespace {

constexpr std::array kAllStreams{Stream::dc,    Stream::groups,  Stream::mask0,   Stream::mask1,  Stream::mask2,
                                 Stream::masks, Stream::values0, Stream::values1, Stream::values2};
static_assert(kAllStreams.size() == kStreams);

// Bits that follow an escape symbol.
constexpr unsigned escaped_bits(Escape escape) noexcept { return escape == Escape::value ? 16 : 8; }
constexpr std::size_t escape_symbol(Escape escape) noexcept {
  return escape == Escape::value ? kEscapedValue : kEscapedMask;
}

std::uint64_t total_of(const SymbolCounts& counts) noexcept {
  std::uint64_t total = 0;
  for (const auto count : counts) total += count;
  return total;
}

// Rare symbols are better escaped, because each word, even of the full length, makes others longer.
// Tries several thresholds of rarity.
CodeLengths with_escape(const SymbolCounts& counts, Escape escape) {
  const std::uint64_t total = total_of(counts);
  CodeLengths best{};
  auto fewest = std::numeric_limits<std::uint64_t>::max();
  // Shares of all symbols, from 1/65536 to 1/1024.
  for (const std::uint64_t rarity : {65536U, 16384U, 8192U, 4096U, 2048U, 1024U}) {
    SymbolCounts kept = counts;
    std::uint64_t escaped = kept[escape_symbol(escape)];
    kept[escape_symbol(escape)] = 0;
    for (auto& count : kept) {
      if (count * rarity >= total) continue;
      escaped += count;
      count = 0;
    }
    kept[escape_symbol(escape)] = std::max<std::uint64_t>(escaped, 1);
    const CodeLengths lengths = shortest_code(kept);
    std::uint64_t bits = escaped * escaped_bits(escape);
    for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) bits += kept[symbol] * lengths[symbol];
    if (bits >= fewest) continue;
    fewest = bits;
    best = lengths;
  }
  return best;
}

}  // namespace

TableSet::TableSet(const StreamLengths& lengths) {
  codes.reserve(kBlockKinds * kStreams);
  for (const auto& kind : lengths) {
    for (const CodeLengths& one : kind) codes.emplace_back(one);
  }
}

// A stream without an escape needs a word for every symbol, or some file could not be packed; so
// its counts are at least 1.
StreamLengths codes_for(const StreamCounts& counts) {
  StreamLengths lengths{};
  for (std::size_t kind = 0; kind < kBlockKinds; ++kind) {
    for (const Stream stream : kAllStreams) {
      const auto at = static_cast<std::size_t>(stream);
      SymbolCounts all = counts[kind][at];
      const Escape escape = escape_of(stream);
      if (escape == Escape::none) {
        for (auto& count : all) count = std::max<std::uint64_t>(count, 1);
        lengths[kind][at] = shortest_code(all);
      } else {
        lengths[kind][at] = with_escape(all, escape);
      }
    }
  }
  return lengths;
}

double bits_of(const StreamCounts& counts, const TableSet& set) noexcept {
  double bits = 0;
  for (std::size_t kind = 0; kind < kBlockKinds; ++kind) {
    for (const Stream stream : kAllStreams) {
      const SymbolCounts& all = counts[kind][static_cast<std::size_t>(stream)];
      const CodeLengths& lengths = set.code(kind, stream).lengths;
      const Escape escape = escape_of(stream);
      const unsigned escaped = lengths[escape_symbol(escape)] + escaped_bits(escape);
      for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
        const bool has_word = lengths[symbol] > 0 && (escape == Escape::none || symbol != escape_symbol(escape));
        bits += static_cast<double>(all[symbol]) * (has_word ? lengths[symbol] : escaped);
      }
    }
  }
  return bits;
}

// Chosen by hand. Used only for tables that were trained without any file.
StreamCounts usual_counts() {
  StreamCounts counts{};
  // Differences and coefficients are spread around 0, less so in later eighths. Masks have few
  // bits, mostly low ones.
  constexpr std::array<double, kStreams> kSpread{9, 0, 0, 0, 0, 0, 5, 2.5, 1.5};
  for (std::size_t kind = 0; kind < kBlockKinds; ++kind) {
    for (const Stream stream : kAllStreams) {
      const auto at = static_cast<std::size_t>(stream);
      for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
        double weight = 0;
        if (escape_of(stream) == Escape::value) {
          const double spread = kSpread[at] / static_cast<double>(kind + 1);
          weight = std::exp(-std::abs(static_cast<double>(static_cast<std::int8_t>(symbol))) / spread);
          if (stream != Stream::dc && symbol == 0) weight = 0;
        } else {
          weight = std::exp2(-1.2 * std::popcount(symbol) - 0.3 * static_cast<double>(std::bit_width(symbol)));
          if (escape_of(stream) == Escape::mask && symbol == kEscapedMask) weight = 0;
        }
        counts[kind][at][symbol] = static_cast<std::uint64_t>(weight * 100'000);
      }
    }
  }
  return counts;
}

}  // namespace forebay::pack

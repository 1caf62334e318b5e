// Prefix codes of limited length for streams of bytes. shortest_code() is the package-merge
// algorithm (Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes",
// 1990), in the form of the coin collector's problem. In each of kSymbolBits rounds the cheapest
// coins are paired and merged with the symbols. A symbol's length is how often it is part of the
// first 2n - 2 coins at the end. Words are canonical and stored with their first bit lowest, so
// that a decoder masks the low bits of its buffer. All of this happens while packing, or once per
// set of tables.

#include "symbol_code.hpp"

#include <algorithm>
#include <vector>

namespace forebay::pack {
namespace {

// A symbol, or a pair of coins of the previous row (of the coin collector's problem).
struct Coin {
  std::uint64_t weight = 0;
  std::int32_t left = -1;  // index of a coin; -1: this is a symbol
  std::int32_t right = 0;  // index of a coin, or the symbol
};

// The recursion depth is limited by kSymbolBits.
void count_symbols(const std::vector<Coin>& coins, std::int32_t at, CodeLengths& lengths) {
  const Coin& coin = coins[static_cast<std::size_t>(at)];
  if (coin.left < 0) {
    ++lengths[static_cast<std::size_t>(coin.right)];
    return;
  }
  count_symbols(coins, coin.left, lengths);
  count_symbols(coins, coin.right, lengths);
}

unsigned reversed(unsigned word, unsigned length) noexcept {
  unsigned result = 0;
  for (unsigned i = 0; i < length; ++i) result |= (word >> i & 1U) << (length - 1 - i);
  return result;
}

}  // namespace

// Sorting and merging are stable, so equal weights keep their order, and the same counts give the
// same code everywhere.
CodeLengths shortest_code(const SymbolCounts& counts) {
  std::vector<Coin> coins;
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
    if (counts[symbol] > 0) coins.push_back({.weight = counts[symbol], .right = static_cast<std::int32_t>(symbol)});
  }
  std::ranges::stable_sort(coins, {}, &Coin::weight);
  const std::size_t used = coins.size();
  CodeLengths lengths{};
  if (used == 1) lengths[static_cast<std::size_t>(coins[0].right)] = 1;
  if (used < 2) return lengths;
  const auto by_weight = [&](std::int32_t a, std::int32_t b) {
    return coins[static_cast<std::size_t>(a)].weight < coins[static_cast<std::size_t>(b)].weight;
  };
  std::vector<std::int32_t> symbols(used);
  for (std::size_t i = 0; i < used; ++i) symbols[i] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> row = symbols;
  for (unsigned bit = 1; bit < kSymbolBits; ++bit) {
    std::vector<std::int32_t> pairs;
    for (std::size_t i = 0; i + 1 < row.size(); i += 2) {
      const auto weight =
          coins[static_cast<std::size_t>(row[i])].weight + coins[static_cast<std::size_t>(row[i + 1])].weight;
      pairs.push_back(static_cast<std::int32_t>(coins.size()));
      coins.push_back({.weight = weight, .left = row[i], .right = row[i + 1]});
    }
    row.resize(used + pairs.size());
    std::ranges::merge(symbols, pairs, row.begin(), by_weight);
  }
  for (std::size_t i = 0; i < 2 * used - 2; ++i) count_symbols(coins, row[i], lengths);
  return lengths;
}

// Kraft's inequality, in units of the longest word.
bool is_prefix_code(const CodeLengths& lengths) noexcept {
  std::size_t taken = 0;
  for (const unsigned length : lengths) {
    if (length > kSymbolBits) return false;
    if (length > 0) taken += SymbolTable::kEntries >> length;
  }
  return taken <= SymbolTable::kEntries;
}

CodeWords code_words(const CodeLengths& lengths) noexcept {
  CodeWords words{};
  unsigned next = 0;
  for (unsigned length = 1; length <= kSymbolBits; ++length) {
    next <<= 1U;
    for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
      if (lengths[symbol] == length) words[symbol] = static_cast<std::uint16_t>(reversed(next++, length));
    }
  }
  return words;
}

// Entries that belong to no word consume one bit each, so that a damaged stream still advances.
SymbolTable::SymbolTable(const CodeLengths& lengths) noexcept : lengths_(lengths) {
  struct One {
    std::uint8_t symbol = 0;
    std::uint8_t length = 1;
  };
  std::array<One, kEntries> ones{};
  const CodeWords words = code_words(lengths);
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
    if (lengths[symbol] == 0) continue;
    const std::size_t step = std::size_t{1} << lengths[symbol];
    for (std::size_t i = words[symbol]; i < kEntries; i += step) {
      ones[i] = {static_cast<std::uint8_t>(symbol), lengths[symbol]};
    }
  }
  for (std::size_t i = 0; i < kEntries; ++i) {
    std::uint32_t bits = ones[i].length;
    std::uint32_t count = 1;
    entries_[i].symbols[0] = ones[i].symbol;
    while (count < kMost) {
      const One next = ones[i >> bits];
      if (bits + next.length > kSymbolBits) break;
      entries_[i].symbols[count++] = next.symbol;
      bits += next.length;
    }
    entries_[i].bits_and_count = static_cast<std::uint8_t>(bits | count << 6U);
  }
}

}  // namespace forebay::pack

#pragma once

#include "jpeg/huffman_table.hpp"
#include "support.hpp"

// JPEG files assembled symbol by symbol, so that they contain what no encoder writes.
namespace forebay::testing {

// Writes entropy-coded bits with byte stuffing.
class BitWriter {
 public:
  explicit BitWriter(std::vector<std::byte>& to) : to_(to) {}

  void put(std::uint32_t bits, std::uint32_t count) {
    for (std::uint32_t i = count; i-- > 0;) {
      byte_ = byte_ << 1U | (bits >> i & 1U);
      if (++held_ == 8) emit();
    }
  }
  // Pads the last byte with ones.
  void finish() {
    while (held_ > 0) put(1, 1);
  }

 private:
  void emit() {
    to_.push_back(static_cast<std::byte>(byte_ & 0xffU));
    if ((byte_ & 0xffU) == 0xff) to_.push_back(std::byte{0});
    byte_ = held_ = 0;
  }

  std::vector<std::byte>& to_;
  std::uint32_t byte_ = 0;
  std::uint32_t held_ = 0;
};

// A Huffman code, and the word for each symbol.
struct StreamCode {
  struct Word {
    std::uint32_t bits = 0;
    std::uint32_t length = 0;  // 0: no such symbol
  };
  jpeg::HuffmanCode code;
  std::array<Word, 256> words{};
  std::vector<std::uint8_t> symbols;

  // From symbols and the lengths of their words, shortest first.
  explicit StreamCode(const std::vector<std::pair<std::uint8_t, std::uint32_t>>& lengths) {
    std::uint32_t next = 0;
    std::uint32_t length = 0;
    for (const auto& [symbol, wanted] : lengths) {
      for (; length < wanted; ++length) next <<= 1U;
      words[symbol] = {next++, length};
      code.symbols[symbols.size()] = symbol;
      symbols.push_back(symbol);
      ++code.counts[length];
    }
  }

  void put(BitWriter& writer, std::uint8_t symbol) const { writer.put(words[symbol].bits, words[symbol].length); }
};

// A random code with words of up to 16 bits.
inline StreamCode random_code(std::vector<std::uint8_t> symbols, Random& random) {
  for (std::size_t i = symbols.size(); i > 1; --i) std::swap(symbols[i - 1], symbols[random.below(i)]);
  std::vector<std::uint32_t> lengths;
  std::uint32_t left = (1U << 16U) - 1;  // how many words of 16 bits are left; the last one must stay free
  for (std::size_t i = symbols.size(); i > 0; --i) {
    auto length = static_cast<std::uint32_t>(1 + random.below(random.below(2) == 0 ? 8 : 16));
    while (1U << (16 - length) > left - (i - 1)) ++length;
    left -= 1U << (16 - length);
    lengths.push_back(length);
  }
  std::ranges::sort(lengths);
  std::vector<std::pair<std::uint8_t, std::uint32_t>> all;
  for (std::size_t i = 0; i < symbols.size(); ++i) all.emplace_back(symbols[i], lengths[i]);
  return StreamCode(all);
}

// Writes the header of a file.
class StreamFile {
 public:
  StreamFile() { raw({0xff, 0xd8}); }

  void raw(std::initializer_list<int> bytes) {
    for (const int byte : bytes) file_.push_back(static_cast<std::byte>(byte));
  }
  // A quantisation table; 16-bit values if `wide`.
  void quantiser(int number, bool wide, const std::array<std::uint16_t, 64>& values) {
    raw({0xff, 0xdb, 0, wide ? 131 : 67, (wide ? 16 : 0) + number});
    for (const int value : values) {
      if (wide) raw({value >> 8});
      raw({value & 255});
    }
  }
  void code(bool is_ac, int number, const StreamCode& code) {
    const int length = 19 + static_cast<int>(code.symbols.size());
    raw({0xff, 0xc4, length >> 8, length & 255, (is_ac ? 16 : 0) + number});
    for (std::size_t i = 1; i <= 16; ++i) raw({code.code.counts[i]});
    for (const int symbol : code.symbols) raw({symbol});
  }
  // `sampling`: factors of each component; all use quantisation table 0.
  void frame(int kind, int width, int height, const std::vector<std::pair<int, int>>& sampling) {
    const int count = static_cast<int>(sampling.size());
    raw({0xff, 0xc0 + kind, 0, 8 + 3 * count, 8, height >> 8, height & 255, width >> 8, width & 255, count});
    for (int i = 0; i < count; ++i) {
      const auto [h, v] = sampling[static_cast<std::size_t>(i)];
      raw({i + 1, h * 16 + v, 0});
    }
  }
  void restarts(int interval) { raw({0xff, 0xdd, 0, 4, interval >> 8, interval & 255}); }
  // All components in this order; the frame's first component uses Huffman tables 0, the others 1.
  void scan(const std::vector<int>& order) {
    const int count = static_cast<int>(order.size());
    raw({0xff, 0xda, 0, 6 + 2 * count, count});
    for (const int i : order) raw({i + 1, i == 0 ? 0 : 0x11});
    raw({0, 63, 0});
  }

  [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return file_; }

 private:
  std::vector<std::byte> file_;
};

// Parameters of random_stream().
struct StreamRecipe {
  int width = 24;
  int height = 17;
  std::vector<std::pair<int, int>> sampling{{2, 2}, {1, 1}, {1, 1}};
  int restart_interval = 0;
  bool wide_quantiser = false;
  std::uint64_t one_wrong_in = 0;  // one block in so many, or restart marker, is wrong; 0: none
};

inline std::vector<std::uint8_t> random_symbols(std::initializer_list<int> always, std::uint64_t more, bool is_ac,
                                                Random& random) {
  std::vector<std::uint8_t> symbols;
  for (const int symbol : always) symbols.push_back(static_cast<std::uint8_t>(symbol));
  for (std::uint64_t i = 0; i < more; ++i) {
    const std::uint64_t size = random.below(random.below(12) == 0 ? 16 : 5);
    const auto symbol = static_cast<std::uint8_t>(is_ac ? random.below(16) << 4U | size : size);
    if (std::ranges::find(symbols, symbol) == symbols.end()) symbols.push_back(symbol);
  }
  return symbols;
}

// The AC coefficients of a block, as symbols drawn from the code.
inline void put_random_block(BitWriter& writer, const StreamCode& ac, bool is_wrong, Random& random) {
  constexpr std::uint8_t kSixteenZeros = 0xf0;
  const auto density = 1 + random.below(20);
  for (std::uint32_t k = 0; k < 63;) {
    const std::uint8_t symbol = ac.symbols[random.below(ac.symbols.size())];
    const std::uint32_t size = symbol & 15U;
    const std::uint32_t step = size > 0 || symbol == kSixteenZeros ? (symbol >> 4U) + 1U : 0;
    if (step == 0) return ac.put(writer, symbol);
    if (!is_wrong && (k + step > 63 || random.below(density) == 0)) return ac.put(writer, 0);
    ac.put(writer, symbol);
    writer.put(static_cast<std::uint32_t>(random.bits() & 0xffffU), size);
    k += step;
  }
}

// A file with random codes and random symbols.
inline std::vector<std::byte> random_stream(const StreamRecipe& recipe, Random& random) {
  StreamFile file;
  std::array<std::uint16_t, 64> quantiser{};
  const std::uint64_t most = recipe.wide_quantiser && random.below(4) == 0 ? 20'000 : 1 + random.below(16);
  for (auto& value : quantiser) value = static_cast<std::uint16_t>(1 + random.below(most));
  file.quantiser(0, recipe.wide_quantiser, quantiser);
  file.frame(random.below(2) == 0 ? 0 : 1, recipe.width, recipe.height, recipe.sampling);
  std::vector<StreamCode> dc;
  std::vector<StreamCode> ac;
  for (int i = 0; i < 2; ++i) {
    dc.push_back(random_code(random_symbols({0, 1, 2}, random.below(6), false, random), random));
    ac.push_back(random_code(
        random_symbols({0x00, 0x01, 0xf0}, random.below(random.below(4) == 0 ? 200 : 20), true, random), random));
    file.code(false, i, dc.back());
    file.code(true, i, ac.back());
  }
  if (recipe.restart_interval > 0) file.restarts(recipe.restart_interval);
  std::vector<int> order;
  int max_h = 1;
  int max_v = 1;
  const bool is_alone = recipe.sampling.size() == 1;
  for (std::size_t i = 0; i < recipe.sampling.size(); ++i) {
    order.push_back(static_cast<int>(i));
    if (!is_alone) max_h = std::max(max_h, recipe.sampling[i].first);
    if (!is_alone) max_v = std::max(max_v, recipe.sampling[i].second);
  }
  file.scan(order);
  BitWriter writer(file.bytes());
  const int mcus = (recipe.width + 8 * max_h - 1) / (8 * max_h) * ((recipe.height + 8 * max_v - 1) / (8 * max_v));
  const auto is_wrong = [&] { return recipe.one_wrong_in > 0 && random.below(recipe.one_wrong_in) == 0; };
  int restarts = 0;
  for (int mcu = 0; mcu < mcus; ++mcu) {
    if (recipe.restart_interval > 0 && mcu > 0 && mcu % recipe.restart_interval == 0) {
      writer.finish();
      file.raw({0xff, 0xd0 + (restarts++ + (is_wrong() ? 1 : 0)) % 8});
    }
    for (std::size_t i = 0; i < recipe.sampling.size(); ++i) {
      const int blocks = is_alone ? 1 : recipe.sampling[i].first * recipe.sampling[i].second;
      for (int block = 0; block < blocks; ++block) {
        const StreamCode& first = dc[i == 0 ? 0 : 1];
        const std::uint8_t size = first.symbols[random.below(first.symbols.size())];
        first.put(writer, size);
        writer.put(static_cast<std::uint32_t>(random.bits() & 0xffffU), size);
        put_random_block(writer, ac[i == 0 ? 0 : 1], is_wrong(), random);
      }
    }
  }
  writer.finish();
  file.raw({0xff, 0xd9});
  return std::move(file.bytes());
}

// A small random file of any kind.
inline std::vector<std::byte> any_stream(Random& random) {
  constexpr std::pair<int, int> kOne{1, 1};
  StreamRecipe recipe;
  recipe.width = static_cast<int>(1 + random.below(70));
  recipe.height = static_cast<int>(1 + random.below(40));
  switch (random.below(5)) {
    case 0: recipe.sampling = {kOne}; break;
    case 1: recipe.sampling = {kOne, kOne, kOne}; break;
    case 2: recipe.sampling = {{2, 1}, kOne, kOne}; break;
    case 3: recipe.sampling = {{1, 2}, kOne, kOne}; break;
    default: break;
  }
  if (random.below(3) == 0) recipe.restart_interval = static_cast<int>(1 + random.below(9));
  recipe.wide_quantiser = random.below(4) == 0;
  recipe.one_wrong_in = random.below(4) == 0 ? 40 : 0;
  return random_stream(recipe, random);
}

}  // namespace forebay::testing

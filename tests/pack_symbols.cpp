#include "jpeg/coefficients.hpp"
#include "pack/pack_kernels.hpp"
#include "pack/symbol_code.hpp"
#include "pack/table_set.hpp"
#include "test.hpp"

// The codes of packed JPEG files, and the loops that read symbols, for every set of kernels.
namespace forebay::test_pack_symbols {
namespace {

using namespace forebay::pack;
using Bytes = std::vector<std::uint8_t>;

// Counts that decrease as fast as `steepness` says, for some of the symbols.
SymbolCounts any_counts(Random& random, double steepness) {
  SymbolCounts counts{};
  const std::size_t used = 1 + random.below(kSymbols);
  for (std::size_t i = 0; i < used; ++i) {
    counts[random.below(kSymbols)] = 1 + static_cast<std::uint64_t>(1e6 * std::exp(-steepness * double(i)));
  }
  return counts;
}

double entropy_bits(const SymbolCounts& counts) {
  double total = 0;
  double bits = 0;
  for (const auto count : counts) total += static_cast<double>(count);
  for (const auto count : counts) {
    if (count > 0) bits -= static_cast<double>(count) * std::log2(static_cast<double>(count) / total);
  }
  return bits;
}

std::uint64_t coded_bits(const SymbolCounts& counts, const CodeLengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kSymbols; ++i) bits += counts[i] * lengths[i];
  return bits;
}

Bytes any_symbols(Random& random, const CodeLengths& lengths, std::size_t count) {
  Bytes known;
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
    const std::size_t copies = lengths[symbol] == 0 ? 0 : std::size_t{1} << (kSymbolBits - lengths[symbol]);
    known.insert(known.end(), copies, static_cast<std::uint8_t>(symbol));
  }
  Bytes symbols(count);
  for (auto& symbol : symbols) symbol = known[random.below(known.size())];
  return symbols;
}

Bytes coded(const Bytes& symbols, std::size_t begin, std::size_t end, const CodeLengths& lengths) {
  const CodeWords words = forebay::pack::code_words(lengths);
  Bytes bytes;
  std::size_t bits = 0;
  for (std::size_t i = begin; i < end; ++i) {
    for (unsigned bit = 0; bit < lengths[symbols[i]]; ++bit, ++bits) {
      if (bits % 8 == 0) bytes.push_back(0);
      bytes.back() = static_cast<std::uint8_t>(bytes.back() | (words[symbols[i]] >> bit & 1U) << bits % 8);
    }
  }
  return bytes;
}

struct Coded {
  std::vector<Bytes> lanes;  // of exactly their size, so that AddressSanitizer detects reads past their end

  Coded(const Bytes& symbols, std::size_t count, const CodeLengths& lengths) {
    const std::size_t length = lane_length(symbols.size(), count);
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t begin = std::min(j * length, symbols.size());
      lanes.push_back(coded(symbols, begin, std::min(begin + length, symbols.size()), lengths));
      lanes.back().shrink_to_fit();
    }
  }
  [[nodiscard]] std::vector<Lane> readers() const {
    std::vector<Lane> all;
    for (const Bytes& lane : lanes) all.push_back({.bytes = lane.data(), .size = lane.size()});
    return all;
  }
};

struct Decoded {
  Bytes symbols;  // with what was written after them
  std::vector<std::size_t> bits;
};

Decoded decode(const PackKernels& kernels, std::vector<Lane> lanes, const SymbolTable& table, std::size_t count) {
  constexpr std::size_t kGuard = 64;
  Decoded decoded;
  decoded.symbols.assign(count + PackKernels::kSlack + kGuard, 0xa5);
  kernels.decode(lanes, table, decoded.symbols.data(), count);
  const auto guard = decoded.symbols.end() - static_cast<std::ptrdiff_t>(kGuard);
  CHECK(std::all_of(guard, decoded.symbols.end(), [](std::uint8_t byte) { return byte == 0xa5; }));
  decoded.symbols.resize(count);
  for (const Lane& lane : lanes) decoded.bits.push_back(lane.bits_taken);
  return decoded;
}

// Streams of blocks, from those of photographs to those that only a hostile file has. Of exactly
// the size that may be read.
struct AnyBlocks {
  std::vector<std::int16_t> dc;
  Bytes groups;
  std::array<Bytes, 3> masks;
  Bytes late_masks;
  std::array<Bytes, 3> values;
  std::array<std::vector<std::byte>, 3> escaped;

  AnyBlocks(Random& random, std::size_t count) {
    const std::uint64_t density = 1 + random.below(8);
    const std::uint64_t rarity = std::array{1, 3, 20, 1000}[random.below(4)];  // of symbols without a byte
    for (std::size_t i = 0; i < count; ++i) {
      dc.push_back(static_cast<std::int16_t>(random.bits()));
      groups.push_back(0);
      for (std::size_t k = 0; k < 8; ++k) {
        if (random.below(8 + 2 * k) >= density + random.below(4)) continue;
        groups.back() = static_cast<std::uint8_t>(groups.back() | 1U << k);
        const auto mask = static_cast<std::uint8_t>(1 + random.below(density > 4 ? 255 : 15));
        (k < 3 ? masks[k] : late_masks).push_back(mask);
        for (int bits = std::popcount(mask); bits > 0; --bits) add_value(random, std::min<std::size_t>(k, 2), rarity);
      }
    }
    dc.shrink_to_fit();
    for (Bytes* bytes : {&groups, &late_masks}) finish(*bytes);
    for (std::size_t k = 0; k < 3; ++k) {
      for (Bytes* bytes : {&masks[k], &values[k]}) finish(*bytes);
    }
  }
  [[nodiscard]] BlockStreams streams() const {
    BlockStreams all{.dc = dc.data(), .groups = groups.data(), .late_masks = late_masks.data()};
    for (std::size_t k = 0; k < 3; ++k) {
      all.masks[k] = masks[k].data();
      all.values[k] = values[k].data();
      all.escaped[k] = escaped[k].data();
      all.has_escaped = all.has_escaped || !escaped[k].empty();
    }
    return all;
  }

 private:
  void add_value(Random& random, std::size_t stream, std::uint64_t rarity) {
    const auto value =
        static_cast<std::uint8_t>(random.below(rarity) == 0 ? forebay::pack::kEscapedValue : random.bits());
    values[stream].push_back(value);
    if (value != forebay::pack::kEscapedValue) return;
    for (int i = 0; i < 2; ++i) escaped[stream].push_back(static_cast<std::byte>(random.bits()));
  }
  static void finish(Bytes& bytes) {
    bytes.resize(bytes.size() + BlockStreams::kSlack, 0xff);
    bytes.shrink_to_fit();
  }
};

}  // namespace

TEST_CASE("a code is shorter than what its symbols hold by less than a bit each, and than any other one") {
  Random random(31);
  for (int i = 0; i < 200; ++i) {
    const SymbolCounts counts = any_counts(random, random.uniform(0, 0.2));
    const CodeLengths lengths = forebay::pack::shortest_code(counts);
    REQUIRE(forebay::pack::is_prefix_code(lengths));
    std::uint64_t total = 0;
    for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
      total += counts[symbol];
      CHECK((lengths[symbol] > 0) == (counts[symbol] > 0));
      // Of two symbols, the more frequent one must not have the longer word.
      for (std::size_t other = 0; other < symbol; ++other) {
        if (counts[symbol] > counts[other] && counts[other] > 0) CHECK(lengths[symbol] <= lengths[other]);
      }
    }
    const auto bits = static_cast<double>(coded_bits(counts, lengths));
    CHECK(bits <= entropy_bits(counts) + static_cast<double>(total));
  }
}

TEST_CASE("words are no longer than a look at the stream, however rare their symbols are") {
  SymbolCounts counts{};
  std::uint64_t a = 1;
  std::uint64_t b = 1;
  for (std::size_t i = 0; i < 40; ++i) {  // Fibonacci numbers, for which words without a limit get one bit longer each
    counts[i] = a;
    b = a + b;
    a = b - a;
  }
  const CodeLengths lengths = forebay::pack::shortest_code(counts);
  CHECK(forebay::pack::is_prefix_code(lengths));
  CHECK(*std::ranges::max_element(lengths) == kSymbolBits);
}

TEST_CASE("codes of no symbol, of one, of two and of all") {
  SymbolCounts counts{};
  CHECK(forebay::pack::shortest_code(counts) == CodeLengths{});
  counts[7] = 3;
  CHECK(forebay::pack::shortest_code(counts)[7] == 1);
  counts[200] = 1'000'000;
  CHECK(forebay::pack::shortest_code(counts)[7] == 1);
  CHECK(forebay::pack::shortest_code(counts)[200] == 1);
  counts.fill(5);
  const CodeLengths all = forebay::pack::shortest_code(counts);
  CHECK(std::ranges::all_of(all, [](unsigned length) { return length == 8; }));
}

TEST_CASE("lengths that are no code are told") {
  CodeLengths lengths{};
  CHECK(forebay::pack::is_prefix_code(lengths));
  lengths[0] = lengths[1] = lengths[2] = 1;
  CHECK_FALSE(forebay::pack::is_prefix_code(lengths));
  lengths = {};
  lengths[9] = kSymbolBits + 1;
  CHECK_FALSE(forebay::pack::is_prefix_code(lengths));
}

TEST_CASE("every kernel reads the symbols that were written, from one lane and from four, and nothing behind them") {
  for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
    CAPTURE(kernels.name);
    Random random(32);
    for (int i = 0; i < (forebay::testing::kSanitized ? 60 : 300); ++i) {
      const CodeLengths lengths = forebay::pack::shortest_code(any_counts(random, random.uniform(0, 0.5)));
      const SymbolTable table(lengths);
      const std::size_t count = i < 150 ? static_cast<std::size_t>(i) : random.below(3000);
      const Bytes symbols = any_symbols(random, lengths, count);
      for (const std::size_t lanes : {std::size_t{1}, kLanes}) {
        CAPTURES(count, lanes);
        const Coded coded(symbols, lanes, lengths);
        const Decoded decoded = decode(kernels, coded.readers(), table, count);
        CHECK(decoded.symbols == symbols);
        for (std::size_t j = 0; j < lanes; ++j) CHECK((decoded.bits[j] + 7) / 8 == coded.lanes[j].size());
      }
    }
  }
}

TEST_CASE("whatever the bytes are, all kernels read the same from them, and none read others") {
  Random random(33);
  for (int i = 0; i < (forebay::testing::kSanitized ? 100 : 400); ++i) {
    CodeLengths lengths = forebay::pack::shortest_code(any_counts(random, 0.1));
    if (i % 3 == 0) lengths[random.below(kSymbols)] = 0;  // an incomplete code
    const SymbolTable table(lengths);
    Coded coded({}, kLanes, lengths);
    for (Bytes& lane : coded.lanes) {
      lane.resize(random.below(40));
      for (auto& byte : lane) byte = static_cast<std::uint8_t>(random.bits());
      lane.shrink_to_fit();
    }
    const std::size_t count = random.below(2000);
    const Decoded expected = decode(forebay::pack::supported_pack_kernels().back(), coded.readers(), table, count);
    for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
      const Decoded found = decode(kernels, coded.readers(), table, count);
      CHECK(found.symbols == expected.symbols);
      CHECK(found.bits == expected.bits);
    }
  }
}

TEST_CASE("every kernel counts the same bits and bytes") {
  Random random(34);
  for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
    for (std::size_t count = 0; count < 200; ++count) {
      Bytes bytes(count + PackKernels::kSlack);
      for (auto& byte : bytes) byte = random.below(3) == 0 ? 0x80 : static_cast<std::uint8_t>(random.bits());
      std::size_t bits = 0;
      std::size_t equal = 0;
      for (std::size_t i = 0; i < count; ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) bits += 0xf8U >> bit & bytes[i] >> bit & 1U;
        equal += bytes[i] == 0x80 ? 1 : 0;
      }
      CHECK(kernels.count_bits(bytes.data(), count, 0xf8f8f8f8f8f8f8f8) == bits);
      CHECK(kernels.count_equal(bytes.data(), count, 0x80) == equal);
    }
  }
}

TEST_CASE("every kernel gives the same sums, as far as the first escape") {
  Random random(36);
  for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
    for (std::size_t count = 0; count < 200; ++count) {
      Bytes differences(count + PackKernels::kSlack);
      for (auto& byte : differences) byte = random.below(60) == 0 ? 0x80 : static_cast<std::uint8_t>(random.bits());
      const auto before = static_cast<std::int16_t>(random.bits());
      std::vector<std::int16_t> sums(count + PackKernels::kSlack / sizeof(std::int16_t));
      const std::size_t found = kernels.sum(differences.data(), count, before, sums.data());
      const auto end = differences.begin() + static_cast<std::ptrdiff_t>(count);
      REQUIRE(found == static_cast<std::size_t>(std::find(differences.begin(), end, 0x80) - differences.begin()));
      std::int64_t sum = before;
      for (std::size_t i = 0; i < found; ++i) {
        sum += static_cast<std::int8_t>(differences[i]);
        CHECK(sums[i] == static_cast<std::int16_t>(sum));
      }
    }
  }
}

TEST_CASE("every kernel takes the same blocks out of their streams, and passes the same ones") {
  constexpr std::size_t kMost = 40;
  struct Taken {
    alignas(64) std::array<std::int16_t, kMost * forebay::jpeg::kBlockSize> blocks{};
    std::array<std::uint8_t, kMost> extents{};
    BlockStreams left;
  };
  Random random(35);
  for (int round = 0; round < (forebay::testing::kSanitized ? 200 : 2000); ++round) {
    const AnyBlocks any(random, kMost);
    const std::size_t first = random.below(kMost);
    const std::size_t passed = random.below(kMost - first);
    const std::size_t then = random.below(kMost - first - passed);
    const auto taken = [&](const PackKernels& kernels) {
      Taken all;
      all.left = any.streams();
      kernels.expand(all.left, first, 0, all.blocks.data(), all.extents.data());
      kernels.skip(all.left, passed);
      kernels.expand(all.left, then, first + passed, all.blocks.data(), all.extents.data());
      return all;
    };
    const Taken expected = taken(forebay::pack::supported_pack_kernels().back());
    for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
      CAPTURE(kernels.name);
      const Taken found = taken(kernels);
      CHECK(found.blocks == expected.blocks);
      CHECK(found.extents == expected.extents);
      CHECK(found.left.dc == expected.left.dc);
      CHECK(found.left.groups == expected.left.groups);
      CHECK(found.left.masks == expected.left.masks);
      CHECK(found.left.late_masks == expected.left.late_masks);
      CHECK(found.left.values == expected.left.values);
      CHECK(found.left.escaped == expected.left.escaped);
    }
  }
}

}  // namespace forebay::test_pack_symbols

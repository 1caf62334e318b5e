// Which sample is at which position of which epoch, as a function: nothing is stored, whatever the
// size of the dataset, and any thread may ask for any position. A Permutation is an unbalanced
// Feistel network over the rows and columns of a rectangle about as large as the dataset. A result
// beyond the dataset's size is permuted again (cycle walking); that is rare because the rectangle
// is hardly larger than the dataset. The random numbers are hashes of seed, epoch and round
// (forebay/random.hpp).
//
// Any change here changes the order that a seed means, and with it what saved jobs resume with.

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <forebay/order.hpp>
#include <forebay/random.hpp>
#include <string>

#include "local_shuffle.hpp"
#include "selection.hpp"
#include "window_shuffle.hpp"

namespace forebay {
namespace {

// The smallest number whose square is at least `size`.
std::uint64_t root_of(std::uint64_t size) noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32U;
  // The estimate may be off by one either way; the result is exact.
  auto root = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size))), 1, kMost);
  while (root < kMost && root * root < size) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= size) --root;
  return root;
}

// Maps 64 uniform bits to [0, n), uniformly: Lemire's method, the upper half of a 128-bit product.
std::uint64_t below(std::uint64_t bits, std::uint64_t n) noexcept {
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * n) >> 64U);
}

// REQUIRES: a < n and b < n.
std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t n) noexcept {
  const std::uint64_t sum = a + b;
  return sum >= n ? sum - n : sum;
}

// "replaced" in ASCII; keeps these draws distinct from those of the epochs' orders.
constexpr std::uint64_t kReplacementKey = 0x7265706c61636564ULL;

std::uint64_t count_batches(const OrderOptions& options) {
  const std::uint64_t whole = options.samples / options.batch_size;
  const bool short_batch = !options.drop_last && options.samples % options.batch_size != 0;
  return whole + (short_batch ? 1 : 0);
}

void check(const OrderOptions& options) {
  if (options.samples == 0) throw ConfigError("dataset.path: the dataset has no samples");
  if (options.batch_size == 0) throw ConfigError("dataset.batch_size must be at least 1");
  if (options.window > 0 && options.run == 0) throw ConfigError("dataset.run must be at least 1");
  if (options.drop_last && options.samples < options.batch_size)
    throw ConfigError("dataset.batch_size = " + std::to_string(options.batch_size) + " is more than the " +
                      std::to_string(options.samples) +
                      " samples of the dataset, and dataset.drop_last leaves no batch: lower the batch size or set "
                      "dataset.drop_last = false");
}

order::WindowShuffle windows(const OrderOptions& options) noexcept {
  return {options.samples, options.window, options.run, options.seed};
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept
    : size_(size), rows_(root_of(size)), columns_(size > 0 ? (size - 1) / rows_ + 1 : 1) {
  for (int round = 0; round < kRounds; ++round) keys_[round] = key64(seed, epoch, round);
}

// A round changes the row by a function of the column, then the column by a function of the row.
// Each step can be undone, so the whole is a bijection.
std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  std::uint64_t element = position;
  do {
    std::uint64_t row = element / columns_;
    std::uint64_t column = element % columns_;
    for (int round = 0; round < kRounds; round += 2) {
      row = add_modulo(row, below(mix64(column ^ keys_[round]), rows_), rows_);
      column = add_modulo(column, below(mix64(row ^ keys_[round + 1]), columns_), columns_);
    }
    element = row * columns_ + column;
    // Cycle walking, for less than one element in sqrt(size). It ends, because the cycle leads back
    // to `position`.
  } while (element >= size_);
  return element;
}

Order::Order(const OrderOptions& options) : options_(options) {
  check(options);
  batches_ = count_batches(options);
}

BatchRef Order::batch(std::uint64_t epoch, std::uint64_t number) const noexcept {
  const std::uint64_t left = options_.samples - number * options_.batch_size;
  const bool is_short = left < options_.batch_size;
  return {.epoch = epoch,
          .batch = number,
          .size = is_short ? static_cast<std::uint32_t>(left) : options_.batch_size,
          .padding = false};
}

std::uint64_t Order::sample(std::uint64_t epoch, std::uint64_t position) const noexcept {
  const std::uint64_t number = number_at(epoch, position);
  return options_.selection ? options_.selection->id(number) : number;
}

std::uint64_t Order::place_at(std::uint64_t epoch, std::uint64_t position) const noexcept {
  if (!options_.shuffle) return position;
  if (options_.window > 0) return windows(options_)(epoch, position);
  if (options_.parts > 0) return order::LocalShuffle(options_, batches_)(epoch, position);
  return Permutation(options_.samples, options_.seed, epoch)(position);
}

std::uint64_t Order::number_at(std::uint64_t epoch, std::uint64_t position) const noexcept {
  const std::uint64_t place = place_at(epoch, position);
  return options_.selection ? options_.selection->at(epoch, place) : place;
}

PositionRange Order::window(std::uint64_t position) const noexcept {
  return is_windowed() ? windows(options_).window(position) : PositionRange{.begin = 0, .end = options_.samples};
}

// The sample that replaces a bad one: walks over all other samples in an order that depends on the
// position. It never returns the bad sample, and no other sample twice before all were tried. In an
// order given by the program it walks over the epoch's other places instead, so that what the
// program left out (held-out data, weights of 0) stays out; the same sample may be at several.
std::uint64_t Order::replacement(std::uint64_t epoch, std::uint64_t position, std::uint32_t attempt) const noexcept {
  const Selection* const selection = options_.selection.get();
  const bool is_given = selection != nullptr && selection->is_given();
  const std::uint64_t samples = selection != nullptr && !is_given ? selection->samples() : options_.samples;
  const std::uint64_t others = samples - 1;
  std::uint64_t number = is_given ? place_at(epoch, position) : number_at(epoch, position);
  if (others > 0 && attempt > 0) {
    const Permutation walk(others, key64(options_.seed, epoch, kReplacementKey), position);
    number = (number + 1 + walk((attempt - 1) % others)) % samples;
  }
  if (selection == nullptr) return number;
  return is_given ? selection->at(epoch, number) : selection->id(number);
}

}  // namespace forebay

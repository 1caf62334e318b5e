#include <forebay/error.hpp>
#include <forebay/order.hpp>
#include <forebay/random.hpp>
#include <string>

#include "selection.hpp"

namespace forebay {
namespace {

constexpr std::uint64_t kReplacementKey = 0x7265706c61636564ULL;

std::uint64_t count_batches(const OrderOptions& options) {
  const std::uint64_t whole = options.samples / options.batch_size;
  const bool short_batch = !options.drop_last && options.samples % options.batch_size != 0;
  return whole + (short_batch ? 1 : 0);
}

void check(const OrderOptions& options) {
  if (options.samples == 0) throw ConfigError("dataset.path: the dataset has no samples");
  if (options.batch_size == 0) throw ConfigError("dataset.batch_size must be at least 1");
  if (options.drop_last && options.samples < options.batch_size)
    throw ConfigError("dataset.batch_size = " + std::to_string(options.batch_size) + " is more than the " +
                      std::to_string(options.samples) +
                      " samples of the dataset, and dataset.drop_last leaves no batch: lower the batch size or set "
                      "dataset.drop_last = false");
}

}  // namespace

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

std::uint64_t Order::number_at(std::uint64_t epoch, std::uint64_t position) const noexcept {
  const std::uint64_t place =
      options_.shuffle ? Permutation(options_.samples, options_.seed, epoch)(position) : position;
  return options_.selection ? options_.selection->at(epoch, place) : place;
}

// Visits all other samples in an order that depends on the position: never the bad sample again, and every sample once
// before any is tried twice.
std::uint64_t Order::replacement(std::uint64_t epoch, std::uint64_t position, std::uint32_t attempt) const noexcept {
  const std::uint64_t others = options_.samples - 1;
  std::uint64_t number = number_at(epoch, position);
  if (others > 0 && attempt > 0) {
    const Permutation walk(others, key64(options_.seed, epoch, kReplacementKey), position);
    number = (number + 1 + walk((attempt - 1) % others)) % options_.samples;
  }
  return options_.selection ? options_.selection->id(number) : number;
}

}  // namespace forebay

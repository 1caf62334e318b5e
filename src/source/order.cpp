#include <forebay/error.hpp>
#include <forebay/order.hpp>
#include <forebay/random.hpp>
#include <string>

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
  if (options.ranks == 0 || options.rank >= options.ranks)
    throw Error("rank " + std::to_string(options.rank) + " of " + std::to_string(options.ranks) + " cannot exist");
  if (options.ranks > options.virtual_shards)
    throw ConfigError("mpi.virtual_shards = " + std::to_string(options.virtual_shards) + " is less than the " +
                      std::to_string(options.ranks) + " ranks of this job: raise it or start fewer ranks");
  if (options.drop_last && options.samples < options.batch_size)
    throw ConfigError("dataset.batch_size = " + std::to_string(options.batch_size) + " is more than the " +
                      std::to_string(options.samples) +
                      " samples of the dataset, and dataset.drop_last leaves no batch: lower the batch size or set "
                      "dataset.drop_last = false");
}

// How many of the shards 0 .. shards-1 belong to `rank`.
std::uint64_t shards_of(std::uint64_t shards, std::uint64_t rank, std::uint64_t ranks) noexcept {
  return shards > rank ? (shards - rank - 1) / ranks + 1 : 0;
}

}  // namespace

Order::Order(const OrderOptions& options) : options_(options) {
  check(options);
  batches_ = count_batches(options);
}

// An epoch is whole blocks of V batches, one per shard, and a last partial block.
std::uint64_t Order::batches_of(std::uint32_t rank) const noexcept {
  const std::uint64_t shards = options_.virtual_shards;
  return batches_ / shards * shards_of(shards, rank, options_.ranks) +
         shards_of(batches_ % shards, rank, options_.ranks);
}

std::uint64_t Order::most_batches() const noexcept { return batches_of(0); }

BatchRef Order::at(std::uint64_t turn) const noexcept {
  const std::uint64_t own = batches_of(options_.rank);
  BatchRef batch;
  if (own == 0) {
    // Fewer batches than ranks: every other rank serves one batch per epoch.
    batch = {.epoch = turn, .batch = options_.rank % batches_, .size = 0, .padding = true};
  } else {
    const std::uint64_t in_epoch = turn % own;
    const std::uint64_t per_block = shards_of(options_.virtual_shards, options_.rank, options_.ranks);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a rank that owns batches has a shard in every block
    const std::uint64_t block = in_epoch / per_block;
    const std::uint64_t shard = options_.rank + in_epoch % per_block * options_.ranks;
    batch = {.epoch = turn / own, .batch = block * options_.virtual_shards + shard, .size = 0, .padding = false};
  }
  const std::uint64_t left = options_.samples - batch.batch * options_.batch_size;
  batch.size = left < options_.batch_size ? static_cast<std::uint32_t>(left) : options_.batch_size;
  return batch;
}

std::uint64_t Order::sample(std::uint64_t epoch, std::uint64_t position) const noexcept {
  if (!options_.shuffle) return position;
  return Permutation(options_.samples, options_.seed, epoch)(position);
}

// A walk over all the other samples in an order of the position's own: never the bad sample again, and every sample
// is tried before one is tried twice.
std::uint64_t Order::replacement(std::uint64_t epoch, std::uint64_t position, std::uint32_t attempt) const noexcept {
  const std::uint64_t bad = sample(epoch, position);
  const std::uint64_t others = options_.samples - 1;
  if (others == 0 || attempt == 0) return bad;
  const Permutation walk(others, key64(options_.seed, epoch, kReplacementKey), position);
  return (bad + 1 + walk((attempt - 1) % others)) % options_.samples;
}

}  // namespace forebay

// dataset.order = "local". Maps a position to a place in four steps, each of them a bijection. The
// served positions of each part are shuffled. The first of them, as many as the part exchanges, are
// shuffled with those of all other parts. A permutation within the part turns the result into one
// of the part's homes. A permutation that is the same in every epoch gives the place with this
// home. So without exchange a part shows only samples of its own homes.

#include "local_shuffle.hpp"

#include <algorithm>
#include <cmath>

#include <forebay/random.hpp>

namespace forebay::order {
namespace {

// Keep these random numbers distinct from each other and from those of other orders.
constexpr std::uint64_t kServedKey = 0x736572766564;
constexpr std::uint64_t kExchangeKey = 0x65786368616e6765;
constexpr std::uint64_t kRoomKey = 0x726f6f6d;
constexpr std::uint64_t kHomeKey = 0x686f6d65;

}  // namespace

LocalShuffle::LocalShuffle(const OrderOptions& options, std::uint64_t batches) noexcept
    : partition_{.batches = batches, .shards = options.shards, .ranks = options.parts, .contiguous = true},
      samples_(options.samples),
      batch_size_(options.batch_size),
      served_(std::min(samples_, batches * batch_size_)),
      exchanged_(static_cast<std::uint64_t>(std::llround(options.exchange * static_cast<double>(served_)))),
      seed_(options.seed) {}

// Borders are rounded down, so that the parts share `count` without gap or overlap. A part
// exchanges no more positions than it serves, because exchanged_ <= served_. It has room for what
// it serves, because served_ <= samples_.
std::uint64_t LocalShuffle::begin(std::uint64_t part, std::uint64_t count) const noexcept {
  const std::uint64_t position = std::min(served_, first_batch_of(partition_, part) * batch_size_);
  return static_cast<std::uint64_t>(static_cast<Wide>(position) * count / served_);
}

// The inverse of begin(): the part of the last position before which at most `number` come.
std::uint64_t LocalShuffle::part_of(std::uint64_t number, std::uint64_t count) const noexcept {
  const auto position = static_cast<std::uint64_t>((static_cast<Wide>(number + 1) * served_ - 1) / count);
  return owner_of(partition_, block_of(partition_, position / batch_size_).shard);
}

std::uint64_t LocalShuffle::operator()(std::uint64_t epoch, std::uint64_t position) const noexcept {
  std::uint64_t part = 0;
  std::uint64_t in_part = 0;
  if (position < served_) {
    part = part_of(position, served_);
    const Permutation within(size(part, served_), key64(seed_, epoch, kServedKey), part);
    in_part = within(position - begin(part, served_));
    if (in_part < size(part, exchanged_)) {
      const Permutation among(exchanged_, key64(seed_, kExchangeKey), epoch);
      const std::uint64_t number = among(begin(part, exchanged_) + in_part);
      part = part_of(number, exchanged_);
      in_part = number - begin(part, exchanged_);
    }
  } else {  // positions that are not served follow those that are
    const std::uint64_t number = position - served_;
    part = part_of(number, samples_ - served_);
    in_part = size(part, served_) + number - begin(part, samples_ - served_);
  }
  const Permutation room(size(part, samples_), key64(seed_, epoch, kRoomKey), part);
  return place(begin(part, samples_) + room(in_part));
}

std::uint64_t LocalShuffle::place(std::uint64_t home) const noexcept {
  return Permutation(samples_, key64(seed_, kHomeKey), 0)(home);
}

}  // namespace forebay::order

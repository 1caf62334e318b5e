// Computes which rank serves which batches of an epoch, and keeps the ledger of what is left.
// Batches are assigned in one of two ways. Round-robin: batch b belongs to shard b mod V, and shard
// v to rank v mod P. Contiguous: each shard is a run of consecutive batches, so that files are read
// in order. All ranks compute this and must agree, so everything is exact integer arithmetic, in
// 128 bits where products may be large. Runs on the thread of next(), at the start and at agreed
// steps.

#include "ledger.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

namespace forebay::order {
namespace {

// How many of the numbers 0 ... count-1 are congruent to `rest` modulo `divisor`.
std::uint64_t count_congruent(std::uint64_t count, std::uint64_t rest, std::uint64_t divisor) noexcept {
  return count > rest ? (count - rest - 1) / divisor + 1 : 0;
}

// Where the i-th of `parts` nearly equal parts of 0 ... count-1 begins; `count` for i = parts. The
// sizes of parts differ by at most one.
std::uint64_t share_begin(std::uint64_t count, std::uint64_t i, std::uint64_t parts) noexcept {
  return static_cast<std::uint64_t>(static_cast<Wide>(count) * i / parts);
}

// The part that contains a number.
std::uint64_t share_of(std::uint64_t count, std::uint64_t number, std::uint64_t parts) noexcept {
  return static_cast<std::uint64_t>((static_cast<Wide>(number + 1) * parts - 1) / count);
}

// For a contiguous partition whose job resumes with another number of ranks. Deals the ranges of
// each epoch to the ranks in equal shares, in order, and splits ranges at the ends of shares.
// Epochs that nobody has begun are dealt as in a new job, without splits, because many may be open.
std::vector<BatchRange> dealt_in_order(const std::vector<BatchRange>& ranges, const Partition& partition) {
  std::vector<BatchRange> dealt;
  for (std::size_t first = 0; first < ranges.size();) {
    std::size_t end = first;
    std::uint64_t total = 0;
    for (; end < ranges.size() && ranges[end].epoch == ranges[first].epoch; ++end) {
      total += ranges[end].end - ranges[end].begin;
    }
    if (total == partition.batches) {
      for (; first < end; ++first) {
        dealt.push_back(ranges[first]);
        dealt.back().owner = owner_of(partition, ranges[first].shard);
      }
    }
    std::uint64_t before = 0;
    for (; first < end; ++first) {
      for (BatchRange rest = ranges[first]; rest.begin < rest.end;) {
        const std::uint64_t rank = share_of(total, before, partition.ranks);
        const std::uint64_t room = share_begin(total, rank + 1, partition.ranks) - before;
        BatchRange part = rest;
        part.owner = static_cast<std::uint32_t>(rank);
        part.end = std::min(part.begin + room, part.end);
        before += part.end - part.begin;
        rest.begin = part.end;
        dealt.push_back(part);
      }
    }
  }
  return dealt;
}

void check(const Partition& partition) {
  if (partition.ranks <= partition.shards) return;
  throw ConfigError("mpi.virtual_shards = " + std::to_string(partition.shards) + " is less than the " +
                    std::to_string(partition.ranks) + " ranks of this job: raise it or start fewer ranks");
}

}  // namespace

std::uint64_t used_shards(const Partition& partition) noexcept {
  return std::min<std::uint64_t>(partition.batches, partition.shards);
}

std::uint64_t blocks_of(const Partition& partition, std::uint32_t shard) noexcept {
  if (partition.contiguous) {
    return shard < used_shards(partition) ? share_begin(partition.batches, shard + 1, used_shards(partition)) -
                                                share_begin(partition.batches, shard, used_shards(partition))
                                          : 0;
  }
  return count_congruent(partition.batches, shard, partition.shards);
}

std::uint64_t batch_of(const Partition& partition, std::uint32_t shard, std::uint64_t block) noexcept {
  if (partition.contiguous) return share_begin(partition.batches, shard, used_shards(partition)) + block;
  return block * partition.shards + shard;
}

Block block_of(const Partition& partition, std::uint64_t batch) noexcept {
  if (!partition.contiguous) {
    return {.shard = static_cast<std::uint32_t>(batch % partition.shards), .block = batch / partition.shards};
  }
  const std::uint64_t shard = share_of(partition.batches, batch, used_shards(partition));
  return {.shard = static_cast<std::uint32_t>(shard),
          .block = batch - share_begin(partition.batches, shard, used_shards(partition))};
}

std::uint32_t owner_of(const Partition& partition, std::uint32_t shard) noexcept {
  if (!partition.contiguous) return shard % partition.ranks;
  return static_cast<std::uint32_t>(share_of(used_shards(partition), shard, partition.ranks));
}

std::uint64_t first_batch_of(const Partition& partition, std::uint64_t rank) noexcept {
  const std::uint64_t shards = used_shards(partition);
  return share_begin(partition.batches, share_begin(shards, rank, partition.ranks), shards);
}

// An epoch consists of whole blocks of V batches, one per shard, and a partial block at the end.
std::uint64_t batches_of(const Partition& partition, std::uint32_t rank) noexcept {
  if (partition.contiguous) {
    return first_batch_of(partition, std::uint64_t{rank} + 1) - first_batch_of(partition, rank);
  }
  return partition.batches / partition.shards * count_congruent(partition.shards, rank, partition.ranks) +
         count_congruent(partition.batches % partition.shards, rank, partition.ranks);
}

// The number of steps of an epoch if every step is fresh.
std::uint64_t most_batches(const Partition& partition) noexcept {
  if (!partition.contiguous) return batches_of(partition, 0);  // the longest shards come first
  std::uint64_t most = 0;
  for (std::uint32_t rank = 0; rank < partition.ranks; ++rank) most = std::max(most, batches_of(partition, rank));
  return most;
}

// Adjacent ranges of one owner are merged, which keeps exchanges and saved states small.
void tidy(std::vector<BatchRange>& ranges) {
  std::erase_if(ranges, [](const BatchRange& range) { return range.begin == range.end; });
  const auto place = [](const BatchRange& range) { return std::tuple(range.epoch, range.shard, range.begin); };
  // Usually nothing was split, and thousands of ranges are sorted already.
  if (!std::ranges::is_sorted(ranges, {}, place)) std::ranges::sort(ranges, {}, place);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    BatchRange& last = ranges[kept];
    const BatchRange& next = ranges[i];
    if (last.epoch == next.epoch && last.shard == next.shard && last.owner == next.owner && last.end == next.begin) {
      last.end = next.end;
    } else {
      ranges[++kept] = next;
    }
  }
  if (!ranges.empty()) ranges.resize(kept + 1);
}

std::size_t Ledger::cut_up_to(const Partition& partition) noexcept {
  return std::max<std::size_t>(kCutUpTo, 3 * static_cast<std::size_t>(used_shards(partition)));
}

std::size_t Ledger::most_ranges(const Partition& partition) noexcept {
  return cut_up_to(partition) + static_cast<std::size_t>(used_shards(partition));
}

Ledger::Ledger(const Partition& partition) : partition_(partition) {
  check(partition_);
  ranges_.reserve(most_ranges(partition_));
  open_more();
}

// With the same number of ranks each keeps its ranges, so the batches that follow are those of a
// run that never stopped. With another number the ranges are dealt out anew.
Ledger::Ledger(const Partition& partition, std::uint64_t completed, std::uint64_t opened, std::vector<BatchRange> left,
               std::uint32_t ranks_before)
    : partition_(partition),
      completed_(completed),
      opened_(opened),
      first_restored_(completed),
      restored_(opened - completed) {
  check(partition_);
  ranges_.reserve(most_ranges(partition_));
  for (const BatchRange& range : left) restored_[range.epoch - completed_] += range.end - range.begin;
  if (ranks_before != partition_.ranks) {
    if (partition_.contiguous) left = dealt_in_order(left, partition_);
    for (BatchRange& range : left) {
      if (!partition_.contiguous) range.owner = owner_of(partition_, range.shard);
    }
  }
  tidy(left);
  ranges_.assign(left.begin(), left.end());
  open_more();
}

std::uint64_t Ledger::to_serve(std::uint64_t epoch) const noexcept {
  const bool is_restored = epoch >= first_restored_ && epoch - first_restored_ < restored_.size();
  return is_restored ? restored_[epoch - first_restored_] : partition_.batches;
}

// Ranges are sorted by epoch, so those of completed epochs come first.
void Ledger::complete(std::uint64_t epoch) {
  if (epoch == completed_) return;
  completed_ = epoch;
  const auto first_open = std::ranges::find_if(ranges_, [&](const BatchRange& range) { return range.epoch >= epoch; });
  ranges_.erase(ranges_.begin(), first_open);
  open_more();
}

void Ledger::replace(std::vector<BatchRange> ranges) {
  tidy(ranges);
  ranges_.assign(ranges.begin(), ranges.end());
  open_more();
}

// At least two epochs are open, so that a rank that is done with one can begin the next. More are
// opened while there are few ranges.
void Ledger::open_more() {
  constexpr std::uint64_t kLeast = 2;
  const auto shards = static_cast<std::uint32_t>(used_shards(partition_));
  const std::size_t most = partition_.ranks == 1 ? kRangesAlone : kRanges;
  while (!is_all_open() && opened_ < completed_ + kEpochs &&
         (opened_ < completed_ + kLeast || ranges_.size() + shards <= most)) {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      ranges_.push_back({.epoch = opened_,
                         .begin = 0,
                         .end = blocks_of(partition_, shard),
                         .shard = shard,
                         .owner = owner_of(partition_, shard)});
    }
    ++opened_;
  }
}

}  // namespace forebay::order

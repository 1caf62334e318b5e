#include "ledger.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

namespace forebay {
namespace {

// How many of the numbers 0 ... count-1 are `rest` modulo `divisor`.
std::uint64_t count_congruent(std::uint64_t count, std::uint64_t rest, std::uint64_t divisor) noexcept {
  return count > rest ? (count - rest - 1) / divisor + 1 : 0;
}

// Where the i-th of `parts` nearly equal parts of 0 ... count-1 begins; at most `count`.
std::uint64_t share_begin(std::uint64_t count, std::uint64_t i, std::uint64_t parts) noexcept {
  return static_cast<std::uint64_t>(static_cast<Wide>(count) * i / parts);
}

// The part that a number is in.
std::uint64_t share_of(std::uint64_t count, std::uint64_t number, std::uint64_t parts) noexcept {
  return static_cast<std::uint64_t>((static_cast<Wide>(number + 1) * parts - 1) / count);
}

// Deals the pieces of each epoch to the ranks in equal shares, in order, and cuts those at the ends of shares. Epochs
// that nobody has begun are dealt like those of a new job, without cuts: many may be open.
std::vector<Piece> dealt_in_order(const std::vector<Piece>& pieces, const Deal& deal) {
  std::vector<Piece> dealt;
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t end = first;
    std::uint64_t total = 0;
    for (; end < pieces.size() && pieces[end].epoch == pieces[first].epoch; ++end) {
      total += pieces[end].end - pieces[end].begin;
    }
    if (total == deal.batches) {
      for (; first < end; ++first) {
        dealt.push_back(pieces[first]);
        dealt.back().owner = owner_of(deal, pieces[first].shard);
      }
    }
    std::uint64_t before = 0;
    for (; first < end; ++first) {
      for (Piece rest = pieces[first]; rest.begin < rest.end;) {
        const std::uint64_t rank = share_of(total, before, deal.ranks);
        const std::uint64_t room = share_begin(total, rank + 1, deal.ranks) - before;
        Piece part = rest;
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

void check(const Deal& deal) {
  if (deal.ranks <= deal.shards) return;
  throw ConfigError("mpi.virtual_shards = " + std::to_string(deal.shards) + " is less than the " +
                    std::to_string(deal.ranks) + " ranks of this job: raise it or start fewer ranks");
}

}  // namespace

std::uint64_t used_shards(const Deal& deal) noexcept { return std::min<std::uint64_t>(deal.batches, deal.shards); }

std::uint64_t blocks_of(const Deal& deal, std::uint32_t shard) noexcept {
  if (deal.contiguous) {
    return shard < used_shards(deal) ? share_begin(deal.batches, shard + 1, used_shards(deal)) -
                                           share_begin(deal.batches, shard, used_shards(deal))
                                     : 0;
  }
  return count_congruent(deal.batches, shard, deal.shards);
}

std::uint64_t batch_of(const Deal& deal, std::uint32_t shard, std::uint64_t block) noexcept {
  if (deal.contiguous) return share_begin(deal.batches, shard, used_shards(deal)) + block;
  return block * deal.shards + shard;
}

Block block_of(const Deal& deal, std::uint64_t batch) noexcept {
  if (!deal.contiguous) {
    return {.shard = static_cast<std::uint32_t>(batch % deal.shards), .block = batch / deal.shards};
  }
  const std::uint64_t shard = share_of(deal.batches, batch, used_shards(deal));
  return {.shard = static_cast<std::uint32_t>(shard),
          .block = batch - share_begin(deal.batches, shard, used_shards(deal))};
}

std::uint32_t owner_of(const Deal& deal, std::uint32_t shard) noexcept {
  if (!deal.contiguous) return shard % deal.ranks;
  return static_cast<std::uint32_t>(share_of(used_shards(deal), shard, deal.ranks));
}

// An epoch is whole blocks of V batches, one per shard, and a last partial block.
std::uint64_t batches_of(const Deal& deal, std::uint32_t rank) noexcept {
  if (deal.contiguous) {
    const std::uint64_t shards = used_shards(deal);
    const auto begin = [&](std::uint64_t r) {
      return share_begin(deal.batches, share_begin(shards, r, deal.ranks), shards);
    };
    return begin(std::uint64_t{rank} + 1) - begin(rank);
  }
  return deal.batches / deal.shards * count_congruent(deal.shards, rank, deal.ranks) +
         count_congruent(deal.batches % deal.shards, rank, deal.ranks);
}

std::uint64_t most_batches(const Deal& deal) noexcept {
  if (!deal.contiguous) return batches_of(deal, 0);  // the longest shards come first
  std::uint64_t most = 0;
  for (std::uint32_t rank = 0; rank < deal.ranks; ++rank) most = std::max(most, batches_of(deal, rank));
  return most;
}

void tidy(std::vector<Piece>& pieces) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.begin == piece.end; });
  const auto place = [](const Piece& piece) { return std::tuple(piece.epoch, piece.shard, piece.begin); };
  // Usually nothing was cut, and thousands of pieces are in order already.
  if (!std::ranges::is_sorted(pieces, {}, place)) std::ranges::sort(pieces, {}, place);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    Piece& last = pieces[kept];
    const Piece& next = pieces[i];
    if (last.epoch == next.epoch && last.shard == next.shard && last.owner == next.owner && last.end == next.begin) {
      last.end = next.end;
    } else {
      pieces[++kept] = next;
    }
  }
  if (!pieces.empty()) pieces.resize(kept + 1);
}

std::size_t Ledger::cut_up_to(const Deal& deal) noexcept {
  return std::max<std::size_t>(kCutUpTo, 3 * static_cast<std::size_t>(used_shards(deal)));
}

std::size_t Ledger::most_pieces(const Deal& deal) noexcept {
  return cut_up_to(deal) + static_cast<std::size_t>(used_shards(deal));
}

Ledger::Ledger(const Deal& deal) : deal_(deal) {
  check(deal_);
  pieces_.reserve(most_pieces(deal_));
  open_more();
}

Ledger::Ledger(const Deal& deal, std::uint64_t completed, std::uint64_t opened, std::vector<Piece> left,
               std::uint32_t ranks_before)
    : deal_(deal), completed_(completed), opened_(opened), first_restored_(completed), restored_(opened - completed) {
  check(deal_);
  pieces_.reserve(most_pieces(deal_));
  for (const Piece& piece : left) restored_[piece.epoch - completed_] += piece.end - piece.begin;
  if (ranks_before != deal_.ranks) {
    if (deal_.contiguous) left = dealt_in_order(left, deal_);
    for (Piece& piece : left) {
      if (!deal_.contiguous) piece.owner = owner_of(deal_, piece.shard);
    }
  }
  tidy(left);
  pieces_.assign(left.begin(), left.end());
  open_more();
}

std::uint64_t Ledger::to_serve(std::uint64_t epoch) const noexcept {
  const bool is_restored = epoch >= first_restored_ && epoch - first_restored_ < restored_.size();
  return is_restored ? restored_[epoch - first_restored_] : deal_.batches;
}

void Ledger::complete(std::uint64_t epoch) {
  if (epoch == completed_) return;
  completed_ = epoch;
  const auto first_open = std::ranges::find_if(pieces_, [&](const Piece& piece) { return piece.epoch >= epoch; });
  pieces_.erase(pieces_.begin(), first_open);
  open_more();
}

void Ledger::replace(std::vector<Piece> pieces) {
  tidy(pieces);
  pieces_.assign(pieces.begin(), pieces.end());
  open_more();
}

void Ledger::open_more() {
  constexpr std::uint64_t kLeast = 2;
  const auto shards = static_cast<std::uint32_t>(used_shards(deal_));
  const std::size_t most = deal_.ranks == 1 ? kPiecesAlone : kPieces;
  while (!is_all_open() && opened_ < completed_ + kEpochs &&
         (opened_ < completed_ + kLeast || pieces_.size() + shards <= most)) {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      pieces_.push_back({.epoch = opened_,
                         .begin = 0,
                         .end = blocks_of(deal_, shard),
                         .shard = shard,
                         .owner = owner_of(deal_, shard)});
    }
    ++opened_;
  }
}

}  // namespace forebay

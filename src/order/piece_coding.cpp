#include "piece_coding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include <forebay/error.hpp>

#include "ledger.hpp"

namespace forebay {
namespace {

constexpr std::uint64_t kMostShards = std::uint64_t{1} << 20U;  // the largest mpi.virtual_shards
// More is damage, or malice: a few bytes could claim to encode more epochs and pieces than fit into memory. No job has
// more than Ledger::kEpochs open, or more pieces than its ledger can hold.
constexpr std::uint64_t kMostEpochs = std::uint64_t{1} << 16U;
static_assert(kMostEpochs >= Ledger::kEpochs);
// Shorter runs are no longer as single numbers.
constexpr std::size_t kShortestRun = 3;

std::uint64_t blocks_of(const JobState& state, std::uint32_t shard) noexcept {
  return forebay::blocks_of({.batches = state.batches, .shards = state.virtual_shards}, shard);
}

auto order_of(const Piece& piece) noexcept { return std::tuple(piece.epoch, piece.shard, piece.begin); }

// The shards that have a block, in the order in which `left` lists them for each epoch: those dealt to rank 0
// ascending, then those of rank 1, ... So begins that are equal because one rank served them are adjacent.
class DealOrder {
 public:
  explicit DealOrder(const JobState& state) noexcept
      : ranks_(state.ranks),
        shards_(std::min<std::uint64_t>(state.batches, state.virtual_shards)),
        each_(shards_ / ranks_),
        longer_(shards_ % ranks_) {}

  [[nodiscard]] std::uint64_t shards() const noexcept { return shards_; }
  // REQUIRES: shard < shards().
  [[nodiscard]] std::uint64_t place_of(std::uint64_t shard) const noexcept {
    const std::uint64_t rank = shard % ranks_;
    return rank * each_ + std::min(rank, longer_) + shard / ranks_;
  }
  // REQUIRES: place < shards().
  [[nodiscard]] std::uint32_t shard_at(std::uint64_t place) const noexcept {
    // The first longer_ ranks have one more shard than the others.
    const std::uint64_t in_longer = longer_ * (each_ + 1);
    const std::uint64_t first = place < in_longer ? 0 : longer_;
    const std::uint64_t among = place < in_longer ? place : place - in_longer;
    const std::uint64_t each = place < in_longer ? each_ + 1 : std::max<std::uint64_t>(each_, 1);
    return static_cast<std::uint32_t>(first + among / each + among % each * ranks_);
  }

 private:
  std::uint64_t ranks_;
  std::uint64_t shards_;
  std::uint64_t each_;    // shards of most ranks
  std::uint64_t longer_;  // ranks that have one more
};

// A piece that ends where its shard ends: that of the next shard in the order of the deal, counted from the first
// opened epoch.
struct Tail {
  std::uint64_t place = 0;
  std::uint64_t begin = 0;
  std::uint32_t owner = 0;
  bool is_dealt = true;  // to its owner

  [[nodiscard]] bool goes_on_as(const Tail& next, std::uint64_t after) const noexcept {
    return next.place == place + after && next.begin == begin && next.is_dealt == is_dealt &&
           (is_dealt || next.owner == owner);
  }
};

StateJson encode_tails(const std::vector<Tail>& pieces, std::uint64_t places) {
  StateJson out = StateJson::array();
  const auto skip = [&out](std::uint64_t count) {
    if (count > 0) out.push_back(-static_cast<std::int64_t>(count));
  };
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < pieces.size();) {
    const Tail& first = pieces[i];
    std::size_t run = 1;
    while (i + run < pieces.size() && first.goes_on_as(pieces[i + run], run)) ++run;
    skip(first.place - next);
    next = first.place + run;
    if (!first.is_dealt) {
      out.push_back(StateJson::array({run, first.begin, first.owner}));
    } else if (run >= kShortestRun) {
      out.push_back(StateJson::array({run, first.begin}));
    } else {
      for (std::size_t k = 0; k < run; ++k) out.push_back(first.begin);
    }
    i += run;
  }
  skip(places - next);
  return out;
}

std::string item(const char* member, std::size_t index) {
  return std::string(member) + "[" + std::to_string(index) + "]";
}

// One item of `left`: `shards` shards, each with a piece that begins at `begin`, or none of them with a piece.
struct Run {
  std::uint64_t shards = 1;
  std::uint64_t begin = 0;
  std::optional<std::uint32_t> owner = std::nullopt;  // nothing = the rank to which the shard was dealt
  bool has_piece = true;
};

// Numbers that are too large become one that no shard and no rank has.
std::uint32_t small(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
}

bool are_numbers(const StateJson& json) {
  return json.is_array() && std::ranges::all_of(json, [](const auto& each) { return each.is_number_unsigned(); });
}

Run run_in(const StateJson& json, std::size_t index) {
  if (json.is_number_unsigned()) return {.begin = json.get<std::uint64_t>()};
  if (json.is_number_integer()) {
    return {.shards = std::uint64_t{0} - static_cast<std::uint64_t>(json.get<std::int64_t>()), .has_piece = false};
  }
  if (are_numbers(json) && (json.size() == 2 || json.size() == 3)) {
    Run run{.shards = json[0].get<std::uint64_t>(), .begin = json[1].get<std::uint64_t>()};
    if (json.size() == 3) run.owner = small(json[2].get<std::uint64_t>());
    return run;
  }
  throw Error(item("left", index) + " is neither a whole number nor two or three of them");
}

void decode_tails(const JobState& state, const StateJson& left, std::vector<Piece>& out) {
  if (!left.is_array()) throw Error("left is not a list");
  const DealOrder deal(state);
  const std::uint64_t places = (state.opened - state.epochs) * deal.shards();
  const std::uint64_t most =
      Ledger::most_pieces({.batches = state.batches, .shards = state.virtual_shards, .ranks = state.ranks});
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Run run = run_in(left[i], i);
    if (run.shards > places - next) throw Error(item("left", i) + " goes beyond the last shard of the opened epochs");
    if (run.has_piece && run.shards > most - out.size()) {
      throw Error(item("left", i) + " makes more pieces than a job can have open, " + std::to_string(most));
    }
    for (std::uint64_t place = next; run.has_piece && place < next + run.shards; ++place) {
      const std::uint32_t shard = deal.shard_at(place % deal.shards());
      out.push_back({.epoch = state.epochs + place / deal.shards(),
                     .begin = run.begin,
                     .end = blocks_of(state, shard),
                     .shard = shard,
                     .owner = run.owner.value_or(shard % state.ranks)});
    }
    next += run.shards;
  }
  if (next < places) {
    throw Error("left has " + std::to_string(next) + " shards, and the opened epochs have " + std::to_string(places));
  }
}

// One item of `cut`: an epoch, and then shard, begin, length and rank of each piece in it.
void decode_cut_of_epoch(const StateJson& json, std::size_t index, std::vector<Piece>& out) {
  if (!are_numbers(json) || json.size() < 5 || json.size() % 4 != 1) {
    throw Error(item("cut", index) + " is not an epoch and four whole numbers for each piece");
  }
  const auto number = [&json](std::size_t i) { return json[i].get<std::uint64_t>(); };
  for (std::size_t i = 1; i < json.size(); i += 4) {
    // A length that would overflow ends where no shard does.
    const std::uint64_t begin = number(i + 1);
    const std::uint64_t length = number(i + 2);
    const std::uint64_t end = length > std::numeric_limits<std::uint64_t>::max() - begin
                                  ? std::numeric_limits<std::uint64_t>::max()
                                  : begin + length;
    out.push_back(
        {.epoch = number(0), .begin = begin, .end = end, .shard = small(number(i)), .owner = small(number(i + 3))});
  }
}

void decode_cut(const StateJson& cut, std::vector<Piece>& out) {
  if (!cut.is_array()) throw Error("cut is not a list");
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  for (std::size_t i = 0; i < cut.size(); ++i) decode_cut_of_epoch(cut[i], i, out);
  if (!std::ranges::is_sorted(out.begin() + first, out.end(), {}, order_of)) throw Error("cut is out of order");
}

std::string described(const Piece& piece) {
  return "blocks " + std::to_string(piece.begin) + " to " + std::to_string(piece.end) + " of shard " +
         std::to_string(piece.shard) + " in epoch " + std::to_string(piece.epoch);
}

// What is wrong with the piece by itself; "" if nothing is.
std::string impossible(const JobState& state, const Piece& piece) {
  if (piece.epoch < state.epochs || piece.epoch >= state.opened) {
    return "are outside the opened epochs, " + std::to_string(state.epochs) + " to " + std::to_string(state.opened);
  }
  if (piece.shard >= state.virtual_shards) {
    return "are outside the " + std::to_string(state.virtual_shards) + " virtual shards";
  }
  if (piece.begin >= piece.end || piece.end > blocks_of(state, piece.shard)) {
    return "are not a part of its " + std::to_string(blocks_of(state, piece.shard)) + " blocks";
  }
  if (piece.owner >= state.ranks) {
    return "belong to rank " + std::to_string(piece.owner) + " of " + std::to_string(state.ranks);
  }
  return {};
}

}  // namespace

std::string impossible_job(const JobState& state) {
  if (state.virtual_shards == 0 || state.virtual_shards > kMostShards) {
    return "virtual_shards is " + std::to_string(state.virtual_shards) + ", not 1 to " + std::to_string(kMostShards);
  }
  if (state.ranks == 0 || state.ranks > state.virtual_shards) {
    return "ranks is " + std::to_string(state.ranks) + ", not 1 to " + std::to_string(state.virtual_shards);
  }
  if (state.batches == 0) return "batches is 0";
  if (state.opened < state.epochs || state.opened - state.epochs > kMostEpochs) {
    return "opened is " + std::to_string(state.opened) + " where epochs is " + std::to_string(state.epochs) +
           ", and at most " + std::to_string(kMostEpochs) + " epochs can be open";
  }
  return {};
}

std::string impossible_pieces(const JobState& state) {
  const Piece* before = nullptr;
  for (const Piece& piece : state.left) {
    std::string what = impossible(state, piece);
    if (what.empty() && before != nullptr) {
      const bool same_shard = before->epoch == piece.epoch && before->shard == piece.shard;
      if (order_of(piece) < order_of(*before)) what = "are out of order";
      if (same_shard && what.empty() && piece.begin < before->end) what = "are left twice in part";
    }
    if (!what.empty()) return described(piece) + " " + what;
    before = &piece;
  }
  return {};
}

CodedPieces encode(const JobState& state) {
  const DealOrder deal(state);
  std::vector<Tail> tails;
  CodedPieces out{.left = {}, .cut = StateJson::array()};
  for (const Piece& piece : state.left) {
    if (piece.end == blocks_of(state, piece.shard)) {
      tails.push_back({.place = (piece.epoch - state.epochs) * deal.shards() + deal.place_of(piece.shard),
                       .begin = piece.begin,
                       .owner = piece.owner,
                       .is_dealt = piece.owner == piece.shard % state.ranks});
      continue;
    }
    if (out.cut.empty() || out.cut.back()[0] != piece.epoch) out.cut.push_back(StateJson::array({piece.epoch}));
    for (const std::uint64_t number :
         {std::uint64_t{piece.shard}, piece.begin, piece.end - piece.begin, std::uint64_t{piece.owner}}) {
      out.cut.back().push_back(number);
    }
  }
  std::ranges::sort(tails, {}, &Tail::place);
  out.left = encode_tails(tails, (state.opened - state.epochs) * deal.shards());
  return out;
}

std::vector<Piece> decode(const JobState& state, const CodedPieces& coded) {
  std::vector<Piece> pieces;
  decode_tails(state, coded.left, pieces);
  decode_cut(coded.cut, pieces);
  std::ranges::sort(pieces, {}, order_of);
  return pieces;
}

}  // namespace forebay

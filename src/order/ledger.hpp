#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "piece.hpp"

namespace forebay {

// How an epoch is dealt out: batch b belongs to virtual shard b mod V, and shard v at first to rank v mod P.
struct Deal {
  std::uint64_t batches = 1;          // of an epoch, over all ranks
  std::uint32_t shards = 1;           // V
  std::uint32_t ranks = 1;            // P
  std::uint64_t epochs = UINT64_MAX;  // of the run; UINT64_MAX = no end
};

// Shards that have a batch at all.
[[nodiscard]] std::uint64_t used_shards(const Deal& deal) noexcept;
// Batches of one shard in an epoch.
[[nodiscard]] std::uint64_t blocks_of(const Deal& deal, std::uint32_t shard) noexcept;
// Batches of an epoch that a rank owns at first; may be 0.
[[nodiscard]] std::uint64_t batches_of(const Deal& deal, std::uint32_t rank) noexcept;

// Which batches of the opened epochs are left, and whose they are. Equal on all ranks at the same step but for one
// thing: `begin` of a piece is what its owner planned so far, and others know it as of the last exchange only. All else
// changes at agreed steps, from agreed values.
//
// An epoch is opened before a rank may plan in it. Two are open at least, so that a rank that has done its part of one
// goes on with the next; more while all pieces together are few, so that the ranks that are ahead of a slow one need
// not wait for its last batches over many short epochs. What must be exchanged and saved stays small that way.
class Ledger {
 public:
  // Opened while there are no more pieces than this, beyond the two. One rank alone is never ahead of another; it need
  // only fill its queue.
  static constexpr std::size_t kPieces = 3072;
  static constexpr std::size_t kPiecesAlone = 256;
  // Never more than this are open, so that what is kept by epoch is bounded.
  static constexpr std::uint64_t kEpochs = 3072;
  // Pieces are not cut any more when there are so many.
  static constexpr std::size_t kMostPieces = kPieces + 1024;

  // More than there will ever be, for reserving.
  [[nodiscard]] static std::size_t most_pieces(const Deal& deal) noexcept;

  // A run from its beginning. Throws ConfigError naming mpi.virtual_shards when there are more ranks than shards.
  explicit Ledger(const Deal& deal);
  // A run that goes on: `completed` epochs are done, of those before `opened` the pieces `left` are to be served.
  // `ranks_before`: with as many ranks as now each keeps its pieces; else they are dealt out anew.
  // Throws ConfigError as above. REQUIRES: left is ascending by epoch, shard and begin, within the deal's shards.
  Ledger(const Deal& deal, std::uint64_t completed, std::uint64_t opened, std::vector<Piece> left,
         std::uint32_t ranks_before);

  [[nodiscard]] const Deal& deal() const noexcept { return deal_; }
  // Epochs completed ... opened-1 are open.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }
  [[nodiscard]] std::uint64_t opened() const noexcept { return opened_; }
  // Every epoch of the run is open.
  [[nodiscard]] bool is_all_open() const noexcept { return opened_ >= deal_.epochs; }
  // Batches of an epoch that this process's job has to serve: all, or what was left of it when it went on.
  [[nodiscard]] std::uint64_t to_serve(std::uint64_t epoch) const noexcept;

  // Ascending by epoch, shard and begin.
  [[nodiscard]] std::span<const Piece> pieces() const noexcept { return pieces_; }

  // The owner planned the first block of a piece.
  void plan(std::size_t piece) noexcept { ++pieces_[piece].begin; }

  // --- at agreed steps, alike on all ranks ---
  // All epochs before `epoch` are served. Drops them and opens others.
  void complete(std::uint64_t epoch);
  // The pieces after an exchange, `begin` known of all of them: sorts them, drops what is planned, joins what lies
  // together and has one owner, and opens epochs where there is room.
  void replace(std::vector<Piece> pieces);

 private:
  void open_more();

  Deal deal_;
  std::uint64_t completed_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t first_restored_ = 0;
  std::vector<std::uint64_t> restored_;  // to_serve of epochs from first_restored_ on
  std::vector<Piece> pieces_;
};

// Sorts pieces by epoch, shard and begin, drops empty ones and joins neighbours of one owner.
void tidy(std::vector<Piece>& pieces);

}  // namespace forebay

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job_state.hpp"

namespace forebay {

using StateJson = nlohmann::ordered_json;

// The pieces of a job in few bytes. Most end where their shard ends: for such a piece `left` has only its begin, by its
// place among all shards of all opened epochs, and its rank if the shard was dealt to another. `cut` lists the others
// in full. docs/state.md has the rules.
struct CodedPieces {
  StateJson left;
  StateJson cut;
};

// Why a job with these numbers of ranks, shards, batches and epochs is impossible; "" if it is possible, which the
// functions below require.
[[nodiscard]] std::string impossible_job(const JobState& state);

// Why these pieces cannot be what is left of the job; "" if they can.
[[nodiscard]] std::string impossible_pieces(const JobState& state);

// REQUIRES: the pieces are possible.
[[nodiscard]] CodedPieces encode(const JobState& state);

// The coded pieces, for the job in `state` (whose own pieces are ignored), in ascending order. Throws Error saying what
// is wrong with the coding; the pieces may still be impossible.
[[nodiscard]] std::vector<Piece> decode(const JobState& state, const CodedPieces& coded);

}  // namespace forebay

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job_state.hpp"

namespace forebay {

using StateJson = nlohmann::ordered_json;

// The pieces of a job in few bytes. Most end where their shard ends: of such a piece `left` has only the begin, by its
// place among all shards of all opened epochs, and its rank where that is not the one that the shard was dealt to.
// `cut` lists the others in full. docs/state.md has the rules.
struct CodedPieces {
  StateJson left;
  StateJson cut;
};

// Why there cannot be a job with these numbers of ranks, shards, batches and epochs; "" when there can. What is below
// requires that there can.
[[nodiscard]] std::string impossible_job(const JobState& state);

// Why these pieces cannot be what is left of the job; "" when they can. What they are does not matter to
// impossible_job.
[[nodiscard]] std::string impossible_pieces(const JobState& state);

// REQUIRES: the pieces are possible.
[[nodiscard]] CodedPieces encode(const JobState& state);

// The pieces of `state`, whose own are ignored, in ascending order. Throws Error saying what in the coded ones is
// wrong; they may yet be impossible.
[[nodiscard]] std::vector<Piece> decode(const JobState& state, const CodedPieces& coded);

}  // namespace forebay

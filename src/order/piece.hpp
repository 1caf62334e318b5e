#pragma once

#include <cstdint>

namespace forebay {

// Batches of one virtual shard in one epoch that one rank has yet to plan or to serve: blocks begin ... end-1. Block k
// of shard v is batch k * V + v, where V is mpi.virtual_shards.
struct Piece {
  std::uint64_t epoch = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t shard = 0;
  std::uint32_t owner = 0;  // rank

  friend bool operator==(const Piece&, const Piece&) = default;
};

}  // namespace forebay

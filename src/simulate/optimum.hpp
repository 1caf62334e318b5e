#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forebay {

// The most even schedule that loses nothing: which steps to serve fresh, with all arrivals known in advance.
struct BestSchedule {
  std::vector<std::uint64_t> fresh_steps;  // ascending, the first is 0
  double squares = 0;                      // sum over batches of (steps served)^2
};

// Minimises the sum of uses^2 over all sequences of fresh and reuse steps with one resident batch, where
//  - `arrived[k]` batches have arrived when step k is served; ascending, arrived[0] >= 1;
//  - a step serves at most one fresh batch, and only one that has arrived: no stall;
//  - before step k + 1 at most `capacity` batches wait, arrived[k + 1] - (fresh up to step k) <= capacity: the producer
//    is never kept from delivering what `arrived` says it delivers.
// The arrivals must be those of a consumer that takes every batch at once, so that they include the blocking that no
// policy can avoid. Dynamic programming over the step at which each batch is first served; the cost is Monge, so each
// batch takes O(w log w) for a window of w steps (divide and conquer over monotone minima: Aggarwal et
// al., "Geometric applications of a matrix-searching algorithm", 1987). Memory: one index per batch and window step.
// Throws Error when no schedule satisfies the conditions.
[[nodiscard]] BestSchedule best_schedule(std::span<const std::uint64_t> arrived, std::uint64_t capacity);

}  // namespace forebay

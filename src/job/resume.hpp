#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "order/job_state.hpp"

// Going on from a saved state: reading it, and whether it belongs to this run.
namespace forebay {

// What one rank adds to the state of its job.
struct RankPart {
  std::uint64_t steps = 0;          // that it has made since the beginning of the run
  std::uint64_t fresh_samples = 0;  // that it has served since this process began
  std::vector<Piece> left;          // not served
};

// Every rank's part, by rank, on every rank. Collective and blocking. Throws Error on all ranks alike when they are not
// at the same step.
[[nodiscard]] std::vector<RankPart> gather_parts(Communicator& communicator, const RankPart& mine);

// The text in `file`, which rank 0 reads, on every rank; nothing when there is no such file, or "" on rank 0. The other
// ranks' `file` is not looked at. Collective and blocking. Throws ConfigError on all ranks alike.
[[nodiscard]] std::optional<std::string> share_state(const std::filesystem::path& file, Communicator& communicator);

// What a state begins with: all but what changes from step to step.
[[nodiscard]] JobState state_of(const Options& options, const Dataset& dataset, const Order& order,
                                std::uint32_t ranks);

// Throws ConfigError naming `source` and the first thing in which the saved job differs from this one, both as
// state_of() makes them.
void require_same_job(const JobState& saved, const JobState& ours, std::string_view source);

}  // namespace forebay

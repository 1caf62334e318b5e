#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "once_audit.hpp"

// What the ranks of a job decide together, and how soon they end.
namespace forebay::testing {

bool OnceAudit::check_alike(std::span<const Seen> ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const Seen& a = ranks[0];
    const Seen& b = ranks[rank];
    const std::string who = "rank " + std::to_string(rank) + " and rank 0 ";
    if (a.steps.size() != b.steps.size()) {
      violate(who + "made " + std::to_string(b.steps.size()) + " and " + std::to_string(a.steps.size()) + " steps");
      return false;
    }
    for (std::size_t step = 0; step < a.steps.size(); ++step) {
      if (a.steps[step].job_fresh_samples != b.steps[step].job_fresh_samples ||
          a.steps[step].epochs_completed != b.steps[step].epochs_completed) {
        violate(who + "differ in job_fresh_samples or epochs_completed at step " + std::to_string(step));
        return false;
      }
    }
    if (a.steps_at_end != b.steps_at_end || a.epochs_at_end != b.epochs_at_end || a.has_ended != b.has_ended ||
        a.was_stopped != b.was_stopped) {
      violate(who + "end differently");
      return false;
    }
    const bool is_alike = std::ranges::equal(a.states, b.states, [](const StateSeen& x, const StateSeen& y) {
      return x.steps == y.steps && x.text == y.text;
    });
    if (!is_alike) {
      violate(who + "have different states");
      return false;
    }
  }
  return true;
}

// All ranks decide alike: at a step where one serves a fresh batch all do, but for those that are padded, and those
// have nothing that could be served.
void OnceAudit::check_lockstep(std::span<const Seen> ranks) {
  const auto all_are_fresh = [&](std::uint64_t step) {
    return std::ranges::all_of(ranks, [&](const Seen& seen) { return seen.steps[step].use_index == 0; });
  };
  const auto is_one_fresh = [&](std::uint64_t step) {
    return std::ranges::any_of(ranks, [&](const Seen& seen) { return seen.steps[step].use_index == 0; });
  };
  for (std::uint64_t step = 0; step < ranks[0].steps.size(); ++step) {
    ++totals_.agreed;
    if (!is_one_fresh(step) || all_are_fresh(step)) continue;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const StepSeen& seen = ranks[rank].steps[step];
      if (ranks[rank].is_logged == 0 || seen.is_padding != 0 || seen.use_index == 0) continue;
      violate("rank " + std::to_string(rank) + " reuses at step " + std::to_string(step) +
              ", which is fresh on others");
    }
    check_padding(ranks, step);
  }
}

// A rank that has served some of an epoch and has more of it is no further than one that serves a batch of it, or of a
// later one. For mpi.lag steps after it had nothing it may lack what the others count on.
void OnceAudit::check_padding(std::span<const Seen> ranks, std::uint64_t step) {
  const Part& part = job_.parts[part_];
  const auto is_before = [](const FreshSeen& fresh, std::uint64_t at) { return fresh.step < at; };
  const auto from = [&](const Seen& seen) {
    return std::lower_bound(seen.fresh.begin(), seen.fresh.end(), step, is_before);
  };
  std::uint64_t served = UINT64_MAX;  // the earliest epoch that is
  for (const Seen& seen : ranks) {
    if (seen.steps[step].use_index == 0) served = std::min(served, from(seen)->epoch);
  }
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Seen& seen = ranks[rank];
    if (seen.steps[step].use_index == 0) continue;
    std::uint64_t next = UINT64_MAX;  // the epoch of its next batch
    if (const auto after = from(seen); after != seen.fresh.end()) {
      next = after->epoch;
    } else if (part.stop != StopBy::checkpoint) {
      for (const LeftBatch& left : read_state_text(ranks[0].states.back().text).left) {
        if (left.rank == rank) next = std::min(next, left.epoch);
      }
    }
    const auto margin = static_cast<std::uint64_t>(part.options.mpi.lag) + 2;
    const bool is_in_it = std::ranges::any_of(
        seen.fresh, [&](const FreshSeen& fresh) { return fresh.epoch == next && fresh.step + margin <= step; });
    if (next > served || !is_in_it) continue;
    violate("rank " + std::to_string(rank) + " is padded at step " + std::to_string(step) +
            ", where others serve epoch " + std::to_string(served) + ", and has batches of epoch " +
            std::to_string(next));
    return;
  }
}

// policy.max_uses is what a rank keeps to in all that it serves but padding.
void OnceAudit::check_uses(std::span<const Seen> ranks) {
  const std::int64_t most = job_.parts[part_].options.policy.max_uses;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].is_logged == 0) continue;
    totals_.logged += ranks[rank].steps.size();
    if (most <= 0) continue;
    totals_.capped += ranks[rank].steps.size();
    for (std::size_t step = 0; step < ranks[rank].steps.size(); ++step) {
      const StepSeen& seen = ranks[rank].steps[step];
      if (seen.is_padding != 0 || seen.use_index < static_cast<std::uint64_t>(most)) continue;
      violate("rank " + std::to_string(rank) + " serves a batch " + std::to_string(seen.use_index + 1) +
              " times at step " + std::to_string(step) + ", and max_uses is " + std::to_string(most));
      break;
    }
  }
}

void OnceAudit::check_stop(std::span<const Seen> ranks) {
  constexpr std::uint64_t kLongest_ms = 20'000;
  const std::uint64_t asked = ranks[job_.parts[part_].stopper % ranks.size()].asked_to_stop_ns;
  if (asked == 0) return;
  const std::uint64_t closed = std::ranges::max(ranks, {}, &Seen::closed_ns).closed_ns;
  const std::uint64_t took_ms = closed > asked ? (closed - asked) / 1'000'000 : 0;
  totals_.longest_stop_ms = std::max(totals_.longest_stop_ms, took_ms);
  if (took_ms > kLongest_ms) violate("a stop took " + std::to_string(took_ms) + " ms");
}

}  // namespace forebay::testing

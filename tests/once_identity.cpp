#include "once_job.hpp"

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

// Two parts of the exactly-once test: resumed runs must serve the same bytes as an uninterrupted
// one, and the ranks of a job must decide alike, pad only without batches to serve, and stop in
// time.
namespace forebay::testing {
namespace {

constexpr std::uint64_t kSamples = 1001;
constexpr std::uint32_t kBatchSize = 4;
// The job is stopped after so many fresh batches per rank; with four ranks, each has 187 or more
// over three epochs.
constexpr std::array<std::uint64_t, 3> kStops{7, 61, 130};

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

// Colour images of several sizes in which every pixel differs from its neighbours, so that any
// other crop or mirroring gives other bytes.
class NoiseDataset final : public LikeDataset {
 public:
  NoiseDataset() : LikeDataset(std::make_shared<MemoryDataset>(kSamples)) {}

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = static_cast<std::int64_t>(id % 3);
    sample.encoding = Encoding::raw;
    sample.width = static_cast<std::int32_t>(20 + id % 13);
    sample.height = static_cast<std::int32_t>(18 + id % 17);
    sample.channels = 3;
    return sample;
  }
  void read(std::uint64_t id, ReadTarget& target) const override {
    const Sample is = sample(id);
    const auto bytes =
        target.reserve(std::size_t{3} * static_cast<std::size_t>(is.width) * static_cast<std::size_t>(is.height));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mixed((id << 20U) + i) & 0xffU);
  }
};

std::uint64_t hash_of(std::uint64_t seed, const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const unsigned char*>(data);
  std::uint64_t hash = seed ^ 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3U;  // FNV-1a
  return hash;
}

// A fresh batch: its identity and a hash of its content.
struct Hashed {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t hash = 0;

  friend bool operator==(const Hashed&, const Hashed&) = default;
};

Hashed hashed(const Lease& lease) {
  std::uint64_t hash = hash_of(0, lease.images().data, lease.images().bytes());
  hash = hash_of(hash, lease.labels().data(), lease.labels().size_bytes());
  hash = hash_of(hash, lease.ids().data(), lease.ids().size_bytes());
  return {lease.epoch(), lease.batch(), hash};
}

struct Run {
  std::vector<Hashed> fresh;
  std::string state;
};

constexpr std::uint64_t kToTheEnd = UINT64_MAX;

// Serves at most so many fresh batches, and returns the state after them.
Run run(const Options& options, const Communicator& ranks, const std::optional<std::string>& from,
        std::uint64_t fresh) {
  Parts parts;
  parts.dataset = std::make_shared<NoiseDataset>();
  Feeder feeder(options, ranks, std::move(parts));
  if (from) feeder.restore_state(*from);
  Run made;
  // All ranks are fresh at the same steps, so all stop at the same step.
  while (made.fresh.size() < fresh) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (batch->is_fresh()) made.fresh.push_back(hashed(*batch));
  }
  made.state = feeder.state();
  feeder.close();
  return made;
}

Options identity_options(MpiMode mode, std::int64_t threads) {
  Options options = memory_options(kBatchSize);
  options.run.epochs = 3;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {16, 12};
  options.transform.mirror = 0.5;
  options.transform.dtype = DType::float32;
  options.transform.layout = Layout::nchw;
  options.workers.io = threads;
  options.workers.decode = threads;
  options.mpi.mode = mode;
  // "block" keeps the ranks at the same pace, so nothing is handed over.
  options.policy.name = mode == MpiMode::local ? "block" : "adaptive";
  return options;
}

// One rank's counts for a row, which are summed.
struct Counts {
  std::uint64_t compared = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t handed_over = 0;
  std::uint64_t too_few = 0;
};

void compare(std::span<const Hashed> expected, std::span<const Hashed> served, Counts& counts) {
  for (std::size_t i = 0; i < served.size(); ++i) {
    ++counts.compared;
    if (i >= expected.size() || expected[i] != served[i]) ++counts.mismatches;
  }
}

Counts check_row(const Options& options, const Communicator& ranks, const std::vector<Hashed>& uninterrupted) {
  Counts counts;
  for (const std::uint64_t stop : kStops) {
    const Run before = run(options, ranks, std::nullopt, stop);
    const Run after = run(options, ranks, before.state, kComparedBatches);
    Counts prefix;
    compare(uninterrupted, before.fresh, prefix);
    counts.mismatches += prefix.mismatches;
    compare(std::span(uninterrupted).subspan(before.fresh.size()), after.fresh, counts);
    if (after.fresh.size() < kComparedBatches) ++counts.too_few;
    for (const auto* served : {&before.fresh, &after.fresh}) {
      for (const Hashed& batch : *served) {
        const auto shards = static_cast<std::uint64_t>(options.mpi.virtual_shards);
        if (batch.batch % shards % ranks.size() != ranks.rank()) ++counts.handed_over;
      }
    }
  }
  return counts;
}

std::string bytes_of(const Counts& counts) { return {reinterpret_cast<const char*>(&counts), sizeof(counts)}; }

}  // namespace

std::vector<IdentityRow> check_identity(std::uint32_t ranks, Stage& stage) {
  std::vector<IdentityRow> rows;
  MPI_Comm comm = stage.split(0, ranks);
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    std::vector<Hashed> uninterrupted;  // with one thread of each kind
    for (const std::int64_t threads : {1, 3}) {
      Counts mine;
      std::string error;
      if (comm != MPI_COMM_NULL) {
        try {
          const auto communicator = make_communicator(comm);
          const Options options = identity_options(mode, threads);
          const Run whole = run(options, *communicator, std::nullopt, kToTheEnd);
          if (uninterrupted.empty()) uninterrupted = whole.fresh;
          mine = check_row(options, *communicator, uninterrupted);
          if (whole.fresh != uninterrupted) ++mine.mismatches;
          communicator->close(10);
        } catch (const std::exception& caught) {
          error = caught.what();
        }
      }
      IdentityRow row{.ranks = ranks,
                      .mode = mode == MpiMode::local ? "local" : "lockstep",
                      .threads = threads,
                      .stops = kStops.size(),
                      .violations = {}};
      std::uint64_t too_few = 0;
      for (const std::string& theirs : stage.gather(bytes_of(mine))) {
        Counts counts;
        std::memcpy(&counts, theirs.data(), sizeof(counts));
        row.compared += counts.compared;
        row.mismatches += counts.mismatches;
        row.handed_over += counts.handed_over;
        too_few += counts.too_few;
      }
      for (const std::string& theirs : stage.gather(error)) {
        if (!theirs.empty()) row.violations.push_back("exception: " + theirs);
      }
      if (row.mismatches > 0) row.violations.push_back(std::to_string(row.mismatches) + " batches differ");
      if (row.handed_over > 0) row.violations.push_back(std::to_string(row.handed_over) + " batches were handed over");
      if (too_few > 0) row.violations.emplace_back("fewer than 50 fresh batches after a stop");
      rows.push_back(std::move(row));
    }
  }
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  return rows;
}

// What the ranks of a job decide together, and how soon they stop.

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

// All ranks decide alike: at a step where one serves a fresh batch all do, except padded ranks,
// which have nothing to serve.
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

// A padded rank must have nothing that it could serve. A rank that has served part of an epoch and
// has more of it must not be behind one that serves a batch of that or a later epoch. For mpi.lag
// steps after it had nothing it may lack what the others count on.
void OnceAudit::check_padding(std::span<const Seen> ranks, std::uint64_t step) {
  const Part& part = job_.parts[part_];
  const auto is_before = [](const FreshSeen& fresh, std::uint64_t at) { return fresh.step < at; };
  const auto from = [&](const Seen& seen) {
    return std::lower_bound(seen.fresh.begin(), seen.fresh.end(), step, is_before);
  };
  std::uint64_t served = UINT64_MAX;  // the earliest epoch served in this step
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

// A rank observes policy.max_uses in everything that it serves except padding.
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

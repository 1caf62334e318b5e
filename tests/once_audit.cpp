#include "once_job.hpp"

#include <nlohmann/json.hpp>

#include "states.hpp"

// Checks what the ranks of a random job served and which states they saw: each batch exactly once
// per epoch, and states that agree with docs/state.md.
namespace forebay::testing {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} * 1024;  // the largest state with 1,024 virtual shards

// By docs/state.md, in a contiguous state shard v of `used` begins with this batch and belongs to
// this rank.
std::uint64_t first_of(std::uint64_t v, std::uint64_t batches, std::uint64_t used) { return v * batches / used; }
std::uint64_t rank_of(std::uint64_t v, std::uint64_t used, std::uint64_t ranks) {
  std::uint64_t rank = 0;
  while ((rank + 1) * used / ranks <= v) ++rank;
  return rank;
}

std::string name(std::uint64_t epoch, std::uint64_t batch) {
  return "epoch " + std::to_string(epoch) + ", batch " + std::to_string(batch);
}

}  // namespace

ReadState read_state_text(std::string_view text) {
  const auto json = nlohmann::json::parse(text);
  ReadState state{.steps = json.at("steps"),
                  .epochs = json.at("epochs"),
                  .opened = json.at("opened"),
                  .fresh_samples = json.at("fresh_samples"),
                  .ranks = json.at("ranks"),
                  .left = {}};
  const std::uint64_t batches = json.at("batches");
  const std::uint64_t shards = json.at("virtual_shards");
  const bool contiguous = json.contains("contiguous");
  const std::uint64_t used = std::min(batches, shards);
  const auto blocks = [&](std::uint64_t shard) {
    if (contiguous) return first_of(shard + 1, batches, used) - first_of(shard, batches, used);
    return (batches - shard + shards - 1) / shards;
  };
  const auto batch_at = [&](std::uint64_t shard, std::uint64_t block) {
    return contiguous ? first_of(shard, batches, used) + block : block * shards + shard;
  };
  const auto add = [&](std::uint64_t epoch, std::uint64_t shard, std::uint64_t begin, std::uint64_t end,
                       std::uint32_t rank) {
    if (shard >= batches || end > blocks(shard) || begin >= end)
      throw std::runtime_error("a range is outside its shard");
    for (std::uint64_t block = begin; block < end; ++block) {
      state.left.push_back({epoch, batch_at(shard, block), rank});
    }
  };
  const auto columns = unpacked(json.at("left"));
  std::array<std::uint64_t, 5> range{};
  for (std::size_t i = 0; i < columns.at("epoch").size(); ++i) {
    for (std::size_t k = 0; const char* const column : {"epoch", "shard", "begin", "end", "owner"}) {
      range[k++] += columns.at(column).at(i).get<std::uint64_t>();
    }
    add(range[0], range[1], range[2], range[3], static_cast<std::uint32_t>(range[4]));
  }
  return state;
}

OnceTotals& OnceTotals::operator+=(const OnceTotals& other) {
  parts += other.parts;
  steps += other.steps;
  jobs += other.jobs;
  in_windows += other.in_windows;
  in_container += other.in_container;
  in_store += other.in_store;
  cached += other.cached;
  epochs += other.epochs;
  records += other.records;
  kills += other.kills;
  fresh += other.fresh;
  handed_over += other.handed_over;
  resumes += other.resumes;
  rank_changes += other.rank_changes;
  states += other.states;
  largest_state = std::max(largest_state, other.largest_state);
  ended += other.ended;
  agreed += other.agreed;
  logged += other.logged;
  capped += other.capped;
  longest_stop_ms = std::max(longest_stop_ms, other.longest_stop_ms);
  return *this;
}

OnceAudit::OnceAudit(const OnceCase& job) : job_(job) {
  const DatasetOptions& dataset = job.parts.front().options.dataset;
  const auto batch_size = static_cast<std::uint64_t>(dataset.batch_size);
  totals_.jobs = 1;
  totals_.in_windows = dataset.order == SampleOrder::shards ? 1 : 0;
  totals_.in_container = job.container.empty() ? 0 : 1;
  totals_.in_store = job.store.empty() ? 0 : 1;
  totals_.cached = job.has_cache ? 1 : 0;
  batches_ = (job.samples + (dataset.drop_last ? 0 : batch_size - 1)) / batch_size;
}

void OnceAudit::violate(const std::string& what) {
  if (violations_.size() < 8) violations_.push_back("part " + std::to_string(part_ + 1) + ": " + what);
}

std::uint64_t OnceAudit::samples_of(std::uint64_t batch) const noexcept {
  const auto batch_size = static_cast<std::uint64_t>(job_.parts.front().options.dataset.batch_size);
  return std::min(batch_size, job_.samples - batch * batch_size);
}

bool OnceAudit::is_complete(const Served& served, std::uint64_t epoch) const {
  const auto found = served.find(epoch);
  return found != served.end() && std::ranges::all_of(found->second, [](std::uint8_t count) { return count == 1; });
}

std::uint64_t OnceAudit::first_incomplete(const Served& served) const {
  std::uint64_t epoch = 0;
  while (is_complete(served, epoch)) ++epoch;
  return epoch;
}

void OnceAudit::add(std::span<const Seen> ranks) {
  const Part& part = job_.parts[part_];
  ++totals_.parts;
  if (part_ > 0) {
    ++totals_.resumes;
    if (part.ranks != ranks_before_) ++totals_.rank_changes;
  }
  // With contiguous batches, the rest is divided into equal shares across shards.
  if (part.ranks != ranks_before_) is_as_dealt_ = !in_one_piece(part.options.dataset) || ranks_before_ == 0;
  for (const Seen& seen : ranks) {
    for (const std::string& complaint : seen.complaints) violate(complaint);
  }
  if (!violations_.empty() || !check_alike(ranks)) return;

  check_steps(ranks);
  std::uint64_t at = 0;
  for (const StateSeen& state : ranks[0].states) {
    serve(served_, ranks, at, state.steps);
    check_state(served_, state);
    at = state.steps;
  }
  Served lost = served_;
  serve(lost, ranks, at, UINT64_MAX);
  check_end(ranks, at);
  check_owners(ranks);
  if (part.options.mpi.mode == MpiMode::lockstep) check_lockstep(ranks);
  check_uses(ranks);
  check_stop(ranks);
  totals_.steps += ranks[0].steps.size();
  if (part.hands_over()) is_as_dealt_ = false;
  steps_ += at;
  samples_ = 0;
  for (const auto& [epoch, batches] : served_) {
    for (std::uint64_t batch = 0; batch < batches_; ++batch) samples_ += batches[batch] * samples_of(batch);
  }
  totals_.epochs = first_incomplete(served_);
  totals_.records = samples_;
  if (part.stop == StopBy::checkpoint && part.lost_steps > 0 && ranks[0].has_ended == 0) ++totals_.kills;
  ranks_before_ = part.ranks;
  ++part_;
}

void OnceAudit::serve(Served& served, std::span<const Seen> ranks, std::uint64_t from, std::uint64_t to) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const FreshSeen& fresh : ranks[rank].fresh) {
      if (fresh.step < from || fresh.step >= to) continue;
      const std::string what = name(fresh.epoch, fresh.batch);
      if (fresh.batch >= batches_) {
        violate(what + " does not exist");
        continue;
      }
      std::uint8_t& count = served.try_emplace(fresh.epoch, batches_, std::uint8_t{0}).first->second[fresh.batch];
      if (count++ > 0) {
        violate(what + " is served fresh once more, by rank " + std::to_string(rank) + " at step " +
                std::to_string(fresh.step));
      }
    }
  }
}

// The batches served and those that the state lists as left must together be each batch of the
// opened epochs, once.
void OnceAudit::check_state(const Served& served, const StateSeen& seen) {
  ++totals_.states;
  totals_.largest_state = std::max<std::uint64_t>(totals_.largest_state, seen.text.size());
  const std::string where = "the state after " + std::to_string(seen.steps) + " steps ";
  const Part& part = job_.parts[part_];
  if (part.options.mpi.virtual_shards <= 1024 && seen.text.size() >= kMostBytes) {
    violate(where + "has " + std::to_string(seen.text.size()) + " bytes");
  }
  ReadState state;
  try {
    state = read_state_text(seen.text);
  } catch (const std::exception& error) {
    violate(where + "cannot be read: " + error.what());
    return;
  }
  std::uint64_t samples = 0;
  for (const auto& [epoch, batches] : served) {
    for (std::uint64_t batch = 0; batch < batches_; ++batch) samples += batches[batch] * samples_of(batch);
  }
  if (state.steps != steps_ + seen.steps) violate(where + "says " + std::to_string(state.steps) + " steps");
  if (state.fresh_samples != samples) {
    violate(where + "says " + std::to_string(state.fresh_samples) + " fresh samples of " + std::to_string(samples));
  }
  if (state.ranks != part.ranks) violate(where + "is of another number of ranks");
  if (state.epochs != std::min(first_incomplete(served), state.opened)) {
    violate(where + "says " + std::to_string(state.epochs) + " epochs");
  }
  if (!served.empty() && served.rbegin()->first >= state.opened) violate(where + "has not opened what is served");

  Served covered = served;
  for (const LeftBatch& left : state.left) {
    if (left.epoch >= state.opened || left.rank >= part.ranks) violate(where + "leaves what cannot be");
    std::uint8_t& count = covered.try_emplace(left.epoch, batches_, std::uint8_t{0}).first->second[left.batch];
    if (count++ > 0) violate(where + "leaves " + name(left.epoch, left.batch) + " twice or although it was served");
  }
  for (std::uint64_t epoch = 0; epoch < state.opened; ++epoch) {
    if (!is_complete(covered, epoch)) violate(where + "has lost batches of epoch " + std::to_string(epoch));
  }
}

// job_fresh_samples() is what the job had served `lag` steps before, or later where epochs end
// separately. An epoch is complete only when all of it has been served.
void OnceAudit::check_steps(std::span<const Seen> ranks) {
  const bool by_epochs = job_.parts[part_].by_epochs;
  const std::uint64_t lag = ranks.size() == 1 ? 0 : static_cast<std::uint64_t>(job_.parts[part_].options.mpi.lag);
  const std::uint64_t lag_of_epochs = by_epochs ? 0 : lag;
  Served served = served_;
  std::vector<std::size_t> next(ranks.size(), 0);
  std::uint64_t samples = samples_;
  std::uint64_t samples_now = samples_;
  std::uint64_t complete = first_incomplete(served);
  const std::vector<StepSeen>& steps = ranks[0].steps;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (step > lag) samples += ranks[rank].steps[step - lag - 1].fresh_samples;
      if (step > 0) samples_now += ranks[rank].steps[step - 1].fresh_samples;
      for (; next[rank] < ranks[rank].fresh.size(); ++next[rank]) {
        const FreshSeen& fresh = ranks[rank].fresh[next[rank]];
        if (fresh.step + lag_of_epochs >= step) break;
        if (fresh.batch >= batches_) continue;  // serve() reports it
        served.try_emplace(fresh.epoch, batches_, std::uint8_t{0}).first->second[fresh.batch] = 1;
      }
    }
    while (is_complete(served, complete)) ++complete;
    const std::uint64_t most = by_epochs ? samples_now : samples;
    if (steps[step].job_fresh_samples < samples || steps[step].job_fresh_samples > most) {
      violate("job_fresh_samples() is " + std::to_string(steps[step].job_fresh_samples) + " at step " +
              std::to_string(step) + " and should be " + std::to_string(samples));
      return;
    }
    const std::uint64_t before = step == 0 ? 0 : steps[step - 1].epochs_completed;
    if (steps[step].epochs_completed > complete || steps[step].epochs_completed < before) {
      violate("epochs_completed() is " + std::to_string(steps[step].epochs_completed) + " at step " +
              std::to_string(step) + " when " + std::to_string(complete) + " are");
      return;
    }
  }
}

void OnceAudit::check_end(std::span<const Seen> ranks, std::uint64_t kept) {
  const Part& part = job_.parts[part_];
  const Seen& seen = ranks[0];
  if (seen.steps_at_end != steps_ + kept) violate("steps() is " + std::to_string(seen.steps_at_end) + " at the end");
  const std::uint64_t complete = first_incomplete(served_);
  if (seen.epochs_at_end > complete) violate("epochs_completed() is too high at the end");
  if (seen.has_ended == 0) {
    if (kept != part.steps) violate("ceased after " + std::to_string(kept) + " steps");
    return;
  }
  if (seen.was_stopped != 0) {
    const std::uint64_t lag = part.ranks == 1 ? 0 : static_cast<std::uint64_t>(part.options.mpi.lag);
    if (part.stop != StopBy::request) violate("was stopped though nobody asked");
    // The first step of an epoch was agreed before the step in which the stop is requested.
    if (kept > part.steps + lag + (part.by_epochs ? 1 : 0))
      violate("was stopped only after " + std::to_string(kept) + " steps");
    return;
  }
  ++totals_.ended;
  if (part.options.run.steps > 0) {
    if (seen.steps_at_end < static_cast<std::uint64_t>(part.options.run.steps)) violate("ended too early");
    if (kept > 0 && seen.steps_at_end > static_cast<std::uint64_t>(part.options.run.steps)) violate("ended too late");
    return;
  }
  const auto epochs = static_cast<std::uint64_t>(part.options.run.epochs);
  if (complete < epochs) violate("ended when " + std::to_string(complete) + " epochs were served");
  if (seen.epochs_at_end < epochs)
    violate("epochs_completed() is " + std::to_string(seen.epochs_at_end) + " at the end");
}

// Checks which rank serves what: in lockstep there is no hand-over, and each rank serves its
// batches in order.
void OnceAudit::check_owners(std::span<const Seen> ranks) {
  const Part& part = job_.parts[part_];
  const auto shards = static_cast<std::uint64_t>(part.options.mpi.virtual_shards);
  const bool is_in_one_piece = in_one_piece(part.options.dataset);
  std::uint64_t handed_over = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<FreshSeen>& fresh = ranks[rank].fresh;
    totals_.fresh += fresh.size();
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const std::uint64_t used = std::min(batches_, shards);
      std::uint64_t shard = fresh[i].batch % shards;
      if (is_in_one_piece) {
        for (shard = 0; first_of(shard + 1, batches_, used) <= fresh[i].batch;) ++shard;
      }
      if ((is_in_one_piece ? rank_of(shard, used, ranks.size()) : shard % ranks.size()) != rank) ++handed_over;
      const bool is_in_order =
          i == 0 || std::pair(fresh[i - 1].epoch, fresh[i - 1].batch) < std::pair(fresh[i].epoch, fresh[i].batch);
      if (!part.hands_over() && !is_in_order) {
        violate("rank " + std::to_string(rank) + " serves " + name(fresh[i].epoch, fresh[i].batch) + " out of order");
      }
    }
  }
  totals_.handed_over += handed_over;
  if (!part.hands_over() && is_as_dealt_ && handed_over > 0) {
    violate(std::to_string(handed_over) + " batches were handed over");
  }
}

OnceResult run_case(const OnceCase& job, Stage& stage, const std::filesystem::path& directory) {
  OnceAudit audit(job);
  std::optional<std::string> state;
  const std::filesystem::path data = directory / ("data." + std::to_string(job.number));
  if (!job.container.empty() && stage.rank() == 0) write_container(job, data);
  (void)stage.gather("");  // the folder exists
  struct Removal {
    const std::filesystem::path& folder;
    bool is_ours;
    ~Removal() {
      std::error_code ignored;
      if (is_ours) std::filesystem::remove_all(folder, ignored);
    }
  } removal{data, stage.rank() == 0};
  const auto file = [&](std::size_t part) {
    return directory / (std::to_string(job.number) + "." + std::to_string(part));
  };
  const auto logs = [&](std::size_t part) { return file(part).string() + ".run"; };
  for (std::size_t i = 0; i < job.parts.size(); ++i) {
    const Part& part = job.parts[i];
    MPI_Comm ranks = stage.split(part.first, part.ranks);
    std::string mine;
    if (ranks != MPI_COMM_NULL) {
      int rank = 0;
      MPI_Comm_rank(ranks, &rank);
      const Place place{.job = &job,
                        .part = i,
                        .rank = static_cast<std::uint32_t>(rank),
                        .ranks = part.without_mpi ? MPI_COMM_NULL : ranks,
                        .state = state,
                        .data = data,
                        .logs = logs(i),
                        .saved = file(i),
                        .to_save = file(i + 1)};
      mine = run_part(place).to_bytes();
      MPI_Comm_free(&ranks);
    }
    const std::vector<std::string> all = stage.gather(mine);
    std::vector<Seen> seen;
    for (std::uint32_t rank = 0; rank < part.ranks; ++rank) {
      seen.push_back(Seen::from_bytes(all[(part.first + rank) % stage.size()]));
    }
    if (stage.rank() == 0) audit.add(seen);
    const std::string verdict = stage.gather(audit.violations().empty() ? "" : "violated")[0];
    if (!verdict.empty()) {
      OnceResult result{.totals = audit.totals(), .violations = audit.violations()};
      if (stage.rank() != 0) result.violations = {verdict};
      return result;
    }
    state = seen.front().states.back().text;
    std::error_code ignored;
    if (stage.rank() == 0) std::filesystem::remove_all(logs(i), ignored);
  }
  OnceResult result{.totals = audit.totals(), .violations = {}};
  for (const std::string& left : stage.left_in_shared_memory())
    result.violations.push_back("left in /dev/shm: " + left);
  return result;
}

}  // namespace forebay::testing

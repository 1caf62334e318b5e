#pragma once

// Random jobs for the exactly-once test: what a job does and how it is stopped and resumed, all as
// a function of a seed. Used by tests/mpi_resume.cpp and experiments/exactly_once.
#include <forebay/mpi.hpp>
#include <forebay/options.hpp>

#include "support.hpp"

namespace forebay::testing {

enum class StopBy : std::uint8_t {
  end,         // the job runs to its end
  request,     // request_stop() on one rank
  cease,       // all ranks stop calling next()
  checkpoint,  // all ranks save, continue for a while and are killed: what was served after the save is served again
};
enum class ResumeBy : std::uint8_t { parts, restore, restore_if_present, text };

// A part of a job: what each rank does in one process.
struct Part {
  std::uint32_t ranks = 1;
  std::uint32_t first = 0;   // rank 0 of the job is this rank of the world; the others follow it, wrapping around
  bool without_mpi = false;  // a single rank without a communicator
  bool by_epochs = false;    // the trainer loops over epochs
  bool holds_last = false;   // the trainer holds each lease until it has the next
  bool is_logged = false;    // its steps and decisions are recorded and checked
  ResumeBy resume = ResumeBy::parts;  // how it resumes from the previous part
  StopBy stop = StopBy::end;
  std::uint64_t steps = 0;           // steps made before the stop
  std::uint64_t lost_steps = 0;      // checkpoint: steps made after the save
  std::uint32_t stopper = 0;         // request: the rank that requests it
  std::vector<std::uint64_t> looks;  // steps before which state() is called, ascending
  // By rank: microseconds that the reader sleeps per sample and the trainer per step.
  std::vector<double> read_us;
  std::vector<double> step_us;
  Options options;

  [[nodiscard]] bool hands_over() const noexcept { return ranks > 1 && options.mpi.mode == MpiMode::local; }
};

struct OnceCase {
  std::uint64_t number = 0;
  std::uint64_t samples = 1;
  std::string container = {};      // the kind of every_container() that holds the samples; "" = in memory
  std::string store = {};          // if not "", samples are read through this URL, which serves the folder of all jobs
  bool has_cache = false;          // with a node cache of part.options.cache.bytes
  std::vector<std::uint64_t> bad;  // ids of samples that cannot be read, ascending
  std::vector<Part> parts;
};

// Limits for random cases.
struct OnceLimits {
  std::uint32_t world = 4;         // available ranks
  std::uint64_t samples = 50'000;  // samples of a dataset
  std::uint64_t served = 60'000;   // samples over all epochs
  double sleep_ms = 500;           // total, of the slowest rank's readers in a job without hand-over
};

// The random case; depends only on the arguments.
[[nodiscard]] OnceCase draw_case(std::uint64_t seed, std::uint64_t number, const OnceLimits& limits);

// The same job with dataset.order = "shards".
[[nodiscard]] OnceCase in_windows(OnceCase job);

// The same job with dataset.order = "local".
[[nodiscard]] OnceCase in_parts(OnceCase job);

// Whether each rank's batches are contiguous.
[[nodiscard]] inline bool in_one_piece(const DatasetOptions& dataset) {
  return dataset.order != SampleOrder::global && dataset.shuffle;
}

// The same job with its samples in a random kind of container, with or without fields, and
// sometimes with a byte budget that holds few of its bytes. Unchanged if it has more than
// `kMostInContainer` samples.
inline constexpr std::uint64_t kMostInContainer = 2500;
[[nodiscard]] OnceCase in_container(OnceCase job);

// The same job with its container in a store, half of them with a cache. Unchanged if the container
// cannot be read by URL, or has more than `kMostInStore` samples.
inline constexpr std::uint64_t kMostInStore = 1000;
[[nodiscard]] OnceCase in_store(OnceCase job, const std::string& url);

// A job in one of these variants, chosen by its number. `store`: a URL, or "" to leave that variant
// out.
[[nodiscard]] OnceCase in_some_way(OnceCase job, const std::string& store = {});

// A kind of job that is rarely drawn: 1,024 shards of which three slow ranks hand over most, over
// several epochs, so that its state is as large as it can be. REQUIRES: limits.world >= 2.
[[nodiscard]] OnceCase large_state_case(std::uint64_t number, const OnceLimits& limits);

// The case in one line.
[[nodiscard]] std::string describe(const OnceCase& job);

// Runs one part of a job on one rank, and records what that rank observed. Stage: all ranks that
// mpirun started; idle ranks wait here without using a core.
class Stage {
 public:
  // Collective. `world` is duplicated.
  explicit Stage(MPI_Comm world);
  // Collective.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  // Files that processes of this stage have left in /dev/shm.
  [[nodiscard]] std::vector<std::string> left_in_shared_memory() const;
  // Collective: every rank's bytes, by rank.
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine);
  // Collective: a communicator of `ranks` ranks starting at `first`, which the caller frees;
  // MPI_COMM_NULL on the others.
  [[nodiscard]] MPI_Comm split(std::uint32_t first, std::uint32_t ranks);

 private:
  void wait_for_all();

  MPI_Comm world_ = MPI_COMM_NULL;
  std::unique_ptr<Communicator> communicator_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::vector<std::string> processes_;  // process ids of all ranks
};

struct StepSeen {
  std::uint64_t job_fresh_samples = 0;
  std::uint64_t epochs_completed = 0;
  std::uint64_t fresh_samples = 0;  // fresh samples served to this rank
  std::uint64_t use_index = 0;
  std::uint64_t is_padding = 0;  // of a part that is logged
};
struct FreshSeen {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t step = 0;  // of this part, from 0
};
struct StateSeen {
  std::uint64_t steps = 0;  // steps of this part made before it
  std::string text;
};

// What one rank observed in one part of a job.
struct Seen {
  std::vector<StepSeen> steps;
  std::vector<FreshSeen> fresh;
  std::vector<StateSeen> states;   // the job resumes from the last one
  std::uint64_t steps_at_end = 0;  // Feeder::steps()
  std::uint64_t epochs_at_end = 0;
  std::uint64_t has_ended = 0;  // next() returned nothing
  std::uint64_t was_stopped = 0;
  std::uint64_t is_logged = 0;  // whether is_padding is known
  // On a clock that all ranks share; 0 = never.
  std::uint64_t asked_to_stop_ns = 0;
  std::uint64_t closed_ns = 0;
  std::vector<std::string> complaints;

  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static Seen from_bytes(std::string_view bytes);
};

// What run_part() needs besides the options.
struct Place {
  const OnceCase* job = nullptr;
  std::size_t part = 0;
  std::uint32_t rank = 0;
  MPI_Comm ranks = MPI_COMM_NULL;    // MPI_COMM_NULL: one rank without MPI
  std::optional<std::string> state;  // to resume from
  std::filesystem::path data;        // folder of the container
  std::filesystem::path logs;        // of a part that is logged
  // The state file that the previous part saved, and the one that this part saves.
  std::filesystem::path saved;
  std::filesystem::path to_save;
};

// Writes the job's container to `folder`. Bad samples are truncated pictures: they are indexed, and
// fail when decoded.
void write_container(const OnceCase& job, const std::filesystem::path& folder);

// Collective over `ranks`. Does not throw: problems become complaints.
[[nodiscard]] Seen run_part(const Place& place);

// Compares the records of a rank's steps, read as docs/telemetry.md describes them, with what the
// rank observed, and fills in `seen.is_logged` and `is_padding` of its steps. Returns the
// differences.
[[nodiscard]] std::vector<std::string> check_logs(const std::filesystem::path& folder, std::uint32_t rank,
                                                  std::uint64_t first_step, Seen& seen);

// Checks that a job that was stopped and resumed serves bit for bit the same as one that never
// stopped. IdentityRow is one configuration: the same job uninterrupted, and stopped at each of
// three points.
struct IdentityRow {
  std::uint32_t ranks = 1;
  std::string mode;
  std::int64_t threads = 1;      // number of readers, and of decoders
  std::uint64_t stops = 0;       // points at which the job was stopped and resumed
  std::uint64_t compared = 0;    // fresh batches after the stops, over all ranks
  std::uint64_t mismatches = 0;  // of those batches
  std::uint64_t handed_over = 0;
  std::vector<std::string> violations;
};

// Fresh batches that are compared on each rank after each stop.
inline constexpr std::uint64_t kComparedBatches = 50;

// Checks `ranks` of the stage's ranks, in both modes, with 1 and 3 threads of each kind. Collective
// over the stage. All are compared with an uninterrupted job on 1 thread, so this also shows that
// the number of threads does not matter.
[[nodiscard]] std::vector<IdentityRow> check_identity(std::uint32_t ranks, Stage& stage);

// Checks that what the ranks of a job observed is what they must observe. LeftBatch: a batch that
// is left according to a saved state, and its owner.
struct LeftBatch {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint32_t rank = 0;
};

// A state, read as docs/state.md describes it, without Forebay's own code.
struct ReadState {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t opened = 0;
  std::uint64_t fresh_samples = 0;
  std::uint32_t ranks = 1;
  std::vector<LeftBatch> left;
};
// Throws std::exception if it cannot be read that way.
[[nodiscard]] ReadState read_state_text(std::string_view text);

struct OnceTotals {
  std::uint64_t parts = 0;
  std::uint64_t steps = 0;
  std::uint64_t jobs = 0;
  std::uint64_t in_windows = 0;    // of the jobs
  std::uint64_t in_container = 0;  // of the jobs
  std::uint64_t in_store = 0;      // of the jobs
  std::uint64_t cached = 0;        // of these
  std::uint64_t epochs = 0;        // completed
  std::uint64_t records = 0;       // samples served fresh that were not lost in a kill
  std::uint64_t kills = 0;         // stops that lost what was served after the last save
  std::uint64_t fresh = 0;         // batches served for the first time
  std::uint64_t handed_over = 0;   // of those, served by another rank than shard mod ranks
  std::uint64_t resumes = 0;
  std::uint64_t rank_changes = 0;  // resumes on a different number of ranks
  std::uint64_t states = 0;
  std::uint64_t largest_state = 0;    // bytes
  std::uint64_t ended = 0;            // jobs that ran to their end
  std::uint64_t agreed = 0;           // lockstep steps at which the ranks were compared
  std::uint64_t logged = 0;           // steps, over all ranks, whose records were checked
  std::uint64_t capped = 0;           // of those, with a cap on uses
  std::uint64_t longest_stop_ms = 0;  // from request_stop() on one rank until all had closed

  OnceTotals& operator+=(const OnceTotals& other);
};

// Checks one job, part by part.
class OnceAudit {
 public:
  explicit OnceAudit(const OnceCase& job);

  // Adds what each rank of the next part observed.
  void add(std::span<const Seen> ranks);

  // The first few violations, one line each.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept { return violations_; }
  [[nodiscard]] const OnceTotals& totals() const noexcept { return totals_; }

 private:
  using Served = std::map<std::uint64_t, std::vector<std::uint8_t>>;  // how often served, by epoch and batch

  void violate(const std::string& what);
  [[nodiscard]] std::uint64_t samples_of(std::uint64_t batch) const noexcept;
  [[nodiscard]] bool is_complete(const Served& served, std::uint64_t epoch) const;
  [[nodiscard]] std::uint64_t first_incomplete(const Served& served) const;

  bool check_alike(std::span<const Seen> ranks);
  // Adds what the ranks served in steps [from, to) of this part.
  void serve(Served& served, std::span<const Seen> ranks, std::uint64_t from, std::uint64_t to);
  void check_state(const Served& served, const StateSeen& seen);
  void check_steps(std::span<const Seen> ranks);
  void check_end(std::span<const Seen> ranks, std::uint64_t kept);
  void check_owners(std::span<const Seen> ranks);
  void check_lockstep(std::span<const Seen> ranks);
  void check_padding(std::span<const Seen> ranks, std::uint64_t step);
  void check_uses(std::span<const Seen> ranks);
  void check_stop(std::span<const Seen> ranks);

  const OnceCase& job_;
  std::uint64_t batches_ = 0;  // of an epoch
  std::size_t part_ = 0;
  std::uint32_t ranks_before_ = 0;
  bool is_as_dealt_ = true;  // no batch can have been handed over since shards were assigned
  std::uint64_t steps_ = 0;  // before this part
  std::uint64_t samples_ = 0;
  Served served_;  // before this part; later, at the state from which the job resumes
  OnceTotals totals_;
  std::vector<std::string> violations_;
};

// Runs one case on all ranks of the stage. Collective. `directory`: for states, the same on all
// ranks. Returns totals and violations on rank 0; on the others, only whether there are violations.
struct OnceResult {
  OnceTotals totals;
  std::vector<std::string> violations;
};
[[nodiscard]] OnceResult run_case(const OnceCase& job, Stage& stage, const std::filesystem::path& directory);

}  // namespace forebay::testing

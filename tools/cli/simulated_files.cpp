#include "simulated_files.hpp"

#include <algorithm>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "config/values.hpp"
#include "job/agreed_start.hpp"
#include "job/replay.hpp"
#include "job/resume.hpp"
#include "measure/counters.hpp"
#include "measure/run_log.hpp"
#include "measure/telemetry.hpp"
#include "order/selection.hpp"

namespace forebay::cli {
namespace {

// The files of a simulated run are written by the same code as those of a real one (Reporter,
// RunLog), only with simulated times, so that reports and replays can read them unchanged.
measure::TelemetrySetup setup_of(const Options& options, const order::JobState& job, std::uint32_t rank) {
  measure::TelemetrySetup setup{
      .options = options.telemetry, .rank = rank, .recording = job::recording_header(options, job, rank, 0)};
  job::note_any_loop(*setup.recording);
  return setup;
}

measure::RunHead head_of(const Options& options, std::uint32_t rank, std::uint32_t ranks) {
  measure::RunHead head{.rank = rank, .ranks = ranks, .started = measure::utc_now(), .host = "simulated"};
  if (rank == 0) head.settings = config::settings_of(options);
  return head;
}

Options with_files(Options options, const std::string& dir) {
  options.telemetry.dir = dir;
  options.telemetry.per_step = true;
  options.telemetry.decisions = true;
  return options;
}

// What the run that is simulated would state of itself.
order::JobState job_of(const Options& options, const Dataset& dataset, std::uint32_t ranks) {
  const auto selection = Selection::make(dataset, options.dataset, options.seed, options.run.eval);
  const Order order(job::order_options(options, selection ? selection->size() : dataset.size(), selection));
  return job::begin_state(options, dataset, order, ranks);
}

}  // namespace

class SimulatedFiles::RankFiles {
 public:
  RankFiles(measure::TelemetrySetup setup, const measure::RunHead& head, const read::WorkerTotals& totals,
            measure::ConsoleLog& console)
      : log_(setup.options.dir, head, console),
        reporter_(
            std::move(setup), totals, [this] { return gauges_; }, console) {}

  // A step's compute time runs from when it was served to when the next step is requested.
  void add(measure::StepRecord record, std::uint64_t turn, std::uint32_t capacity) {
    record.step = steps_++;
    record.adjacent = turn == last_turn_;
    record.step_s = record.step > 0 ? record.t_s - record.wait_s - last_s_ : 0;
    last_turn_ = turn;
    last_s_ = record.t_s;
    gauges_ = {.depth = record.depth, .capacity = capacity, .produced = record.produced, .blocked_s = record.blocked_s};
    reporter_.add(record);
    reporter_.add_decision({.fresh = record.decided_fresh, .padded = record.padding});
    reporter_.tick(record.t_s, 0);
  }
  void finish() {
    reporter_.finish(last_s_, 0);
    log_.end({});
  }
  [[nodiscard]] std::uint64_t lost() const noexcept { return reporter_.lost(); }

 private:
  measure::Gauges gauges_;
  measure::RunLog log_;
  measure::Reporter reporter_;
  std::uint64_t steps_ = 0;
  std::uint64_t last_turn_ = 0;
  double last_s_ = 0;  // when the latest step was served
};

SimulatedFiles::SimulatedFiles(Options options, const Dataset& dataset, const std::string& dir, std::uint64_t ranks,
                               double step_s)
    : options_(with_files(std::move(options), dir)),
      dir_(dir),
      step_s_(step_s),
      console_(0, Live::never, stderr, [](LogLevel, std::string_view) {}) {
  measure::make_run_directory(dir);
  lock_ = measure::DirectoryLock(dir, 0);
  const auto all = static_cast<std::uint32_t>(ranks);
  const order::JobState job = job_of(options_, dataset, all);
  batches_ = std::max<std::uint64_t>(1, job.batches);
  for (std::uint32_t rank = 0; rank < all; ++rank) {
    measure::clear_run_directory(dir, rank, all);
    ranks_.push_back(
        std::make_unique<RankFiles>(setup_of(options_, job, rank), head_of(options_, rank, all), no_work_, console_));
  }
}

SimulatedFiles::~SimulatedFiles() = default;

void SimulatedFiles::add(std::uint64_t rank, double asked, const simulate::ServedStep& served) {
  const bool fresh = served.decision == Decision::fresh;
  fresh_ += fresh ? 1 : 0;
  most_uses_ = std::max(most_uses_, served.use_index + 1);
  // Numbers batches as if the ranks took the batches of an epoch in turn.
  const std::uint64_t batch = (served.turn - 1) * ranks_.size() + rank;
  measure::StepRecord record;
  record.epoch = batch / batches_;
  record.batch = batch % batches_;
  record.use_index = served.use_index;
  record.t_s = (asked + served.wait_s) * step_s_;
  record.wait_s = served.wait_s * step_s_;
  record.produced = served.produced;
  record.blocked_s = served.blocked_s * step_s_;
  record.job_fresh_samples = fresh_ * static_cast<std::uint64_t>(options_.dataset.batch_size);
  record.job_uses = most_uses_;
  record.size = static_cast<std::uint32_t>(options_.dataset.batch_size);
  record.depth = served.depth;
  record.served = served.decision;
  record.decided_fresh = fresh;
  record.exhausted = served.depth == 0;
  ranks_[rank]->add(record, served.turn, served.capacity);
}

// Files are written asynchronously, so losses are known only at the end.
void SimulatedFiles::finish() {
  for (const auto& rank : ranks_) {
    rank->finish();
    if (rank->lost() > 0) {
      throw Error("--record: " + printable(dir_) + ": lines were lost on the way to the disk; is it full?");
    }
  }
}

}  // namespace forebay::cli

// A complete run: its parts, in the order in which they depend on each other, and the functions
// that use several of them: this rank's report to the others, what a step may assume, and the
// shutdown. The trainer's thread calls all of it.
//
// The order of the shutdown matters: the production threads first, because they use everything
// else; then the files; then the communication with the other ranks, which may abort the job and
// therefore first ends the thread that saves states. Every wait in it is bounded
// (docs/decisions/0032-endings-are-bounded.md). A thread that does not return is left behind, and
// with it the Run, since the thread may wake up one day and use it.

#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "config/values.hpp"
#include "data/source_files.hpp"
#include "measure/run_files.hpp"
#include "store/url.hpp"

namespace forebay::feeder {
namespace {

using namespace std::chrono_literals;

// A shutdown that takes longer is logged. Chosen: to a user who pressed Ctrl-C, a shutdown that
// takes a second looks like a hang.
constexpr auto kSoon = 1s;
// As in the waits of next(): what Parts::while_waiting promises.
constexpr auto kHearEvery = 5ms;

}  // namespace

// A stop alone ends no start from files, which takes its time, and none of one of several ranks: the others would wait.
void Run::hear_at_start() {
  constexpr std::chrono::seconds kPatience{3};  // chosen: a store that answers is done by then, or soon
  if (given.while_waiting) given.while_waiting();
  if (communicator->size() > 1 || !stop_requested() || !store::is_url(options.dataset.path)) return;
  if (!stop_heard) stop_heard = Clock::now();
  if (Clock::now() - *stop_heard > kPatience) {
    throw Error("stopped, as requested, while " + options.dataset.path + " was being opened");
  }
}

// Too many bad samples end a wait, and the ranks say why when they agree on the next step. Before the
// first step nobody agrees, and in lockstep the wait for what all have decided goes on: there this
// rank fails by itself.
bool Run::interrupted() {
  if (given.while_waiting) given.while_waiting();
  report_bad();
  if (!ranks->met_bad().empty() && (server->counts().steps == 0 || ranks->are_in_lockstep())) {
    if (const auto problem = ranks->too_many_bad_here()) failure.raise(std::make_exception_ptr(Error(*problem)));
  }
  return ranks->interrupted();
}

void Run::report_bad() {
  pipeline->bad_samples().collect([this](std::uint64_t id, std::string_view reason) { ranks->report_bad(id, reason); });
}

std::uint64_t Run::job_fresh_samples() const noexcept {
  const ranks::JobReport* const heard = ranks->heard();
  return resume_point.fresh_samples() + (heard != nullptr ? static_cast<std::uint64_t>(heard->samples) : 0);
}

// Made when first requested, because the dataset's fingerprint costs time that runs which neither
// save nor resume need not spend.
const order::JobState& Run::job() {
  if (!job_) job_ = job::begin_state(options, *safe_dataset, *order, communicator->size());
  return *job_;
}

// At the first next() and not before: a feeder that is made and then restored must not touch the
// files of the run it continues.
void Run::open_journal() {
  const std::uint32_t rank = communicator->rank();
  const bool by_epochs = ranks->loop() == ranks::Loop::epochs;
  // A job that was stopped before its first step has put nothing here.
  const bool resumes = resume_point.steps() > 0;
  if (!resumes) measure::clear_run_directory(options.telemetry.dir, rank, communicator->size());
  quarantine->begin();
  if (rank == 0) bad_elsewhere = ranks::bad_entries(*dataset) - bad_in_index();
  measure::TelemetrySetup telemetry{
      .options = options.telemetry, .rank = rank, .ranks = communicator->size(), .goes_on = resumes};
  if (job::is_recorded(options)) {
    telemetry.recording = job::recording_header(options, job(), rank, resume_point.steps());
    telemetry.recording->capacity = queue.capacity;
    job::note_loop(*telemetry.recording, by_epochs);
  }
  if (replayed) replayed->require_loop(by_epochs);
  measure::RunHead head{.rank = rank,
                        .ranks = communicator->size(),
                        .first_step = resume_point.steps(),
                        .started = measure::utc_now(),
                        .host = measure::host_name()};
  if (rank == 0) head.settings = config::settings_of(options);
  journal->begin(telemetry, head,
                 {.batch_size = static_cast<double>(options.dataset.batch_size),
                  .batch_bytes = static_cast<double>(store->format().resident_bytes()),
                  .workers_bytes = static_cast<double>(options.workers.bytes),
                  .cores = static_cast<double>(workers.cores),
                  .decode_fixed = options.workers.decode != 0},
                 {.totals = pipeline->totals(),
                  .gauges = [this] { return gauges(); },
                  .production = [this] { return pipeline->observe(); },
                  .console = *console});
}

// May be called several times, even after an exception from `hear`: the shutdown continues on a
// thread of its own, and each call only waits for it.
bool Run::end_production(const std::string& cause, const std::function<void()>& hear) {
  if (!pipeline || is_left_behind_) return !is_left_behind_;
  if (!production_end_) {
    production_end_ = std::make_unique<EndingWork>([this] {
      if (intake != nullptr) intake->give_up();  // a reader may wait for the next epoch
      pipeline->stop();
      jpeg.index.reset();                // a thread of it reads ahead
      data::close_kept_files(*dataset);  // which the program may hold for long
      if (cache != nullptr) cache->leave();
      clock->stop();
    });
  }
  const auto begin = Clock::now();
  const auto ends_by = [&](Clock::time_point deadline) {
    while (hear && Clock::now() < deadline && !production_end_->ends_by(Clock::now() + kHearEvery)) hear();
    return production_end_->ends_by(deadline);
  };
  if (ends_by(begin + kSoon)) return true;
  console->error((cause.empty() ? "the run has ended" : cause) + "; the end waits up to " +
                 std::to_string(kEndPatience.count()) + " s for: " + pipeline->report(produce::Workers::busy));
  if (ends_by(begin + kEndPatience)) return true;
  is_left_behind_ = true;
  console->error("threads that do not return are left behind: " + pipeline->report(produce::Workers::busy));
  return false;
}

// An exception from parting must not leave the thread that saves running, hence end_saves() on both
// ways.
void Run::close(const std::string& cause) {
  journal->stop_profile();
  (void)end_production(cause);
  end_files(cause);
  try {
    early_end->part([this] { end_saves(); });  // saved states must outlive the job
  } catch (...) {
    end_saves();
    throw;
  }
  end_saves();
}

void Run::end_files(const std::string& cause) {
  EndingWork files([this, cause] {
    journal->close();
    log_end(cause);
    quarantine->begin();  // a feeder that made no step has written nothing yet
    directory.release();
    write_trace();
  });
  if (files.ends_by(Clock::now() + kEndPatience)) return;
  is_left_behind_ = true;
  console->error("the files in " + printable(options.telemetry.dir) +
                 " are not written to their end: the disk has not answered for " +
                 std::to_string(kEndPatience.count()) + " s; the thread that writes them is left behind");
}

void Run::end_saves() noexcept {
  if (saves->end()) return;
  is_left_behind_ = true;
}

// The deleter of a Run. Where it cannot end the threads it leaks the run on purpose; to free it
// under them would be worse.
void EndOfRun::operator()(Run* run) const noexcept {
  std::unique_ptr<Run> owned(run);
  // Tries twice, because memory that was refused may have become available. Otherwise the threads
  // are left behind.
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      if (run->end_production("the feeder could not start") && !run->is_left_behind()) return;
      break;
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to end it, or to say where threads are
    }
  }
  static_cast<void>(owned.release());  // NOLINT(bugprone-unused-return-value)
}

void Run::log_end(const std::string& cause) noexcept {
  if (!journal->has_log()) return;
  try {
    journal->log_end(summary(), cause);
  } catch (const std::exception& error) {
    console->warn("telemetry: the end of the run is not written: " + printable(error.what()));
  }
}

void Run::write_trace() noexcept {
  if (!timeline) return;
  try {
    console->info(timeline->write());
  } catch (const std::exception& error) {
    console->warn(printable(error.what()));
  }
}

// `served` counts the epoch that the ranks are about to complete, and no other: that is what its
// end is agreed by.
ranks::RankReport Run::report(Clock::time_point now) noexcept {
  const serve::Server::Counts& counts = server->counts();
  ranks::RankReport mine{.at_reuse_cap = server->is_at_cap(),
                         .served = static_cast<std::int64_t>(server->served_of(ranks->epochs_completed())),
                         .samples = static_cast<std::int64_t>(counts.fresh_samples),
                         .uses = static_cast<std::int64_t>(counts.uses)};
  if (ranks->are_in_lockstep()) mine.progress = progress(now);
  return mine;
}

ranks::RankCount Run::count() const noexcept {
  const serve::Server::Counts& counts = server->counts();
  return {.fresh = counts.fresh, .offered = counts.offered, .backlog = pipeline->backlog()};
}

// For lockstep. The default of Progress says "drained": this rank has nothing more to produce and
// keeps nobody waiting. "Idle" is the same until the next epoch opens.
ranks::Progress Run::progress(Clock::time_point now) noexcept {
  ring::SlotRing& ring = pipeline->ring();
  ranks::Progress progress;
  if (server->counts().steps > 0) {
    progress.now_ns = std::chrono::nanoseconds(now - server->first_return()).count();
    progress.blocked_ns = (ring.blocked(now) - server->blocked_before()).count();
  }
  if (ranks->has_no_batches() || (ranks->is_all_planned() && ring.is_complete())) return progress;
  if (ring.state() == ring::SlotRing::State::all_taken) {
    progress.ready = ranks::Progress::kIdle;
    return progress;
  }
  progress.ready = ring.depth();
  progress.produced = static_cast<std::int64_t>(ring.produced());
  return progress;
}

// A rank pads when it has served everything, when the ranks promised a batch that it lacks, when
// its next batch belongs to an epoch that the others have not reached, and when its source has ended
// an epoch and theirs have not.
serve::StepContext Run::context() noexcept {
  ring::SlotRing& ring = pipeline->ring();
  const bool has_none_planned = ring.state() == ring::SlotRing::State::all_taken;
  const bool is_alone = communicator->size() == 1;
  const bool lacks_batch = ranks->is_left_out() && ring.depth() == 0;
  const bool waits = intake != nullptr && intake->is_waiting();
  return {
      .must_pad = has_none_planned || lacks_batch || waits || ranks->is_ahead(pipeline->planned(ring.taken()).epoch),
      .is_all_planned = ranks->is_all_planned(),
      .is_alone = is_alone,
      .is_waited_for =
          ranks->may_be_waited_for() && ranks->is_waited_for(pipeline->planned_of(ranks->epochs_completed())),
      .are_most_at_cap = is_alone || ranks->are_most_at_cap()};
}

measure::StepRecord Run::record_of(const serve::Served& served, Clock::time_point now) noexcept {
  ring::SlotRing& ring = pipeline->ring();
  const ranks::JobReport* const heard = ranks->heard();
  const BatchRef batch = served.slot == LeaseMaker::kEmpty ? BatchRef{} : store->slot(served.slot).batch;
  return {.step = steps(),
          .epoch = batch.epoch,
          .batch = batch.batch,
          .use_index = served.use_index,
          .census_wait_s = seconds(ranks->waited()),
          .produced = ring.produced(),
          .blocked_s = seconds(ring.blocked(now)),
          .job_fresh_samples = job_fresh_samples(),
          .job_uses = heard != nullptr ? static_cast<std::uint64_t>(heard->uses) : 0,
          .size = batch.size,
          .depth = served.depth,
          .served = served.decision,
          .padding = served.padding,
          .decided_fresh = served.decided_fresh || (served.decision == Decision::fresh && !served.padding),
          .adjacent = served.adjacent,
          .exhausted = served.depth == 0};
}

// What is planned and not taken counts as left, however much of it is decoded: a resumed run makes
// it again.
std::vector<order::BatchRange> Run::left() const {
  std::vector<BatchRef> planned;
  const ring::SlotRing& ring = pipeline->ring();
  for (std::uint64_t turn = ring.taken(); turn < ring.planned(); ++turn) planned.push_back(pipeline->planned(turn));
  return ranks->left(planned);
}

}  // namespace forebay::feeder

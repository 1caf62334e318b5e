// A complete run: its parts, in the order in which they depend on each other, and the functions
// that use several of them: this rank's report to the others, what a step may assume, the figures
// and log lines, and the shutdown. The trainer's thread calls all of it but gauges(), which the
// telemetry thread calls too.
//
// The order of the shutdown matters: the production threads first, because they use everything
// else; then the files; then the communication with the other ranks, which may abort the job and
// therefore first ends the thread that saves states. Every wait in it is bounded
// (docs/decisions/0032-endings-are-bounded.md). A thread that does not return is left behind, and
// with it the Run, since the thread may wake up one day and use it.

#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "config/values.hpp"
#include "data/source_files.hpp"
#include "job/start_checks.hpp"
#include "make/image_decoder.hpp"
#include "measure/run_files.hpp"

namespace forebay::feeder {
namespace {

using namespace std::chrono_literals;

// A shutdown that takes longer is logged. Chosen: to a user who pressed Ctrl-C, a shutdown that
// takes a second looks like a hang.
constexpr auto kSoon = 1s;
// As in the waits of next(): what Parts::while_waiting promises.
constexpr auto kHearEvery = 5ms;

std::string operations_text(const std::vector<std::string>& operations) {
  return operations.empty() ? "" : "; operations " + joined(operations, ", ", printable);
}

std::string views_text(std::uint32_t views) {
  return views == 1 ? "" : "; " + std::to_string(views) + " views of each sample";
}

std::string clips_text(const ClipOptions& clip) {
  if (clip.frames == 0) return "";
  return "; clips of " + counted(static_cast<std::uint64_t>(clip.frames), "frame") +
         (clip.stride > 1 ? ", each " + std::to_string(clip.stride) + " after the one before" : "");
}

// The memory of a decoder thread, besides what it decodes from.
std::string decoder_text(const ClipOptions& clip) {
  if (clip.frames > 0) return "the frames that a codec keeps";
  return std::to_string(make::ImageDecoder::kBytesPerPixel) + " bytes per pixel of the largest ordinary JPEG, up to " +
         std::to_string(make::ImageDecoder::kMostBytesPerPixel) + " of other images";
}

// The extra memory for a field with more than 8 bits per number: a float for each of three
// channels.
std::string wide_text(std::span<const Field> fields) {
  const bool is_any = std::ranges::any_of(fields, [](const Field& field) {
    const bool is_picture = field.kind == FieldKind::image || field.kind == FieldKind::mask;
    return is_picture && field.dtype != DType::uint8;
  });
  return is_any ? ", and up to 12 more where a field has more than 8 bits" : "";
}

// "900 of 1000 samples"
std::string samples_text(std::uint64_t of_dataset, const OrderOptions& order) {
  const std::string parts = order.parts > 0 ? " in " + std::to_string(order.parts) + " parts" : "";
  const std::string all = std::to_string(of_dataset) + " samples" + parts;
  return order.selection ? std::to_string(order.samples) + " of " + all : all;
}

// "0.25 %"
std::string percent_text(double share) {
  const double rounded = std::round(share * 1e4) / 100;
  return rounded > 0 ? shortest(rounded) + " %" : "less than 0.01 %";
}

// "16 ready", "2 to 16 ready"
std::string ready_text(const ring::Capacity& capacity) {
  const std::string most = std::to_string(capacity.most) + " ready";
  return capacity.first == capacity.most ? most : std::to_string(capacity.first) + " to " + most;
}

}  // namespace

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
  if (ring.state() == ring::SlotRing::State::ended) {
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
  const bool is_over = ring.state() == ring::SlotRing::State::ended;
  const bool is_alone = communicator->size() == 1;
  const bool lacks_batch = ranks->is_left_out() && ring.depth() == 0;
  const bool waits = intake != nullptr && intake->is_waiting();
  return {.must_pad = is_over || lacks_batch || waits || ranks->is_ahead(pipeline->planned(ring.taken()).epoch),
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

measure::Gauges Run::gauges() const {
  const ring::SlotRing& ring = pipeline->ring();
  return {.depth = ring.depth_guess(),
          .capacity = ring.capacity(),
          .produced = ring.published(),
          .blocked_s = seconds(ring.blocked()),
          .bad_samples = quarantine->count()};
}

// In order "local" a node reads its part, in any other order everything. A sample is assumed to
// take the room that those read take on average. Neighbours in a container share blocks, so a later
// epoch may have more from the cache, and never less than this run had.
double Run::cache_bound() const {
  const read::WorkerTotals& totals = pipeline->totals();
  const std::uint64_t reads = totals.reads.load(std::memory_order_relaxed);
  if (cache == nullptr || reads == 0) return 0;
  const double share = order->options().parts > 0 ? static_cast<double>(node.local_ranks) / communicator->size() : 1;
  const auto taken = static_cast<double>(totals.cache_room.load(std::memory_order_relaxed));
  const double epoch = taken / static_cast<double>(reads) * share * static_cast<double>(order->options().samples);
  const auto from_cache = static_cast<double>(totals.bytes_from_cache.load(std::memory_order_relaxed));
  const double bytes = from_cache + static_cast<double>(totals.bytes_from_store.load(std::memory_order_relaxed));
  if (epoch <= 0 || bytes <= 0) return 0;
  return std::min(1.0, std::max(static_cast<double>(cache->held()) / epoch, from_cache / bytes));
}

Summary Run::summary() const {
  const read::WorkerTotals& totals = pipeline->totals();
  std::vector<std::uint64_t> resident;
  for (const std::uint32_t slot : server->residents()) resident.push_back(store->slot(slot).uses);
  return journal->summary({.startup_s = startup_s,
                           .blocked_s = gauges().blocked_s,
                           .queue_capacity = pipeline->ring().capacity(),
                           .max_uses = options.run.eval ? 0 : server->max_uses(),
                           .bad_samples = ranks->bad_samples(),
                           .bad_share = static_cast<double>(ranks->bad_samples()) / static_cast<double>(entries()),
                           .left_out = server->counts().left_out,
                           .epochs = ranks->epochs_completed(),
                           .bytes_read = totals.bytes_read.load(std::memory_order_relaxed),
                           .bytes_from_store = totals.bytes_from_store.load(std::memory_order_relaxed),
                           .bytes_from_cache = totals.bytes_from_cache.load(std::memory_order_relaxed),
                           .cache_held = cache == nullptr ? 0 : cache->held(),
                           .cache_bound = cache_bound(),
                           .hedged_reads = totals.hedged_reads.load(std::memory_order_relaxed),
                           .hedges_won = totals.hedges_won.load(std::memory_order_relaxed),
                           .nvjpeg_samples = totals.nvjpeg_samples.load(std::memory_order_relaxed),
                           .nvjpeg_fallbacks = totals.nvjpeg_fallbacks.load(std::memory_order_relaxed)},
                          resident);
}

std::string Run::describe() const {
  const auto encoded = static_cast<std::uint64_t>(options.workers.bytes);
  std::string text = samples_text(dataset->size(), order->options()) + ", " + std::to_string(order->batches()) +
                     " batches per epoch; ring of " + std::to_string(store->size()) + " slots (" +
                     ready_text(capacity) + ", " + std::to_string(queue.pool) + " resident, " +
                     std::to_string(queue.max_leases - 1) + " leased) in " + store->describe() + "; " +
                     forebay::produce::describe(workers) + (pipeline->hedges() ? ", slow reads begun twice" : "");
  const ring::SlotMemory& memory = store->memory();
  const std::uint64_t batches = memory.slots + memory.outputs;
  const std::uint64_t to_come = memory.slots - memory.at_first;
  if (!device->is_host()) text += "; " + job::mebibytes(batches) + " on " + device->describe();
  const std::uint64_t on_host = device->is_host() ? batches : memory.staging;
  text += "; memory up to " + job::mebibytes(on_host + encoded + index_bytes) + ": " +
          (device->is_host() ? "ring " : "staging ") + job::mebibytes(on_host) +
          (to_come > 0 ? " (" + job::mebibytes(on_host - to_come) + " at first)" : "") + ", encoded bytes " +
          job::mebibytes(encoded);
  if (index_bytes > 0) text += ", index " + job::mebibytes(index_bytes);
  return text + ", and for each decoder " + decoder_text(options.dataset.clip) + wide_text(dataset->fields()) +
         operations_text(options.transform.operations) + views_text(store->format().views) +
         clips_text(options.dataset.clip) + "; policy " + options.policy.name;
}

void Run::say_what_was_left_out() {
  const bool is_alone = communicator->size() == 1;
  const std::uint64_t samples = server->counts().fresh_samples;
  const std::uint64_t left_out = server->counts().left_out + (is_alone && options.run.eval ? bad_in_index() : 0);
  if (left_out == 0) return;
  console->warn((is_alone ? "evaluated " : "this rank evaluated ") + std::to_string(samples) + " of " +
                std::to_string(samples + left_out) + " samples; " + std::to_string(left_out) + " left out because " +
                (left_out == 1 ? "it is bad" : "they are bad") +
                (is_alone ? "" : "; the summary has the figures of all ranks"));
}

void Run::say_what_was_replaced() {
  const std::uint64_t bad = ranks->bad_samples();
  if (bad == 0 || options.run.eval || communicator->rank() != 0) return;
  const std::string classes = lost_parts->by_class(ranks->met_bad());
  const std::string& dir = options.telemetry.dir;
  const std::uint64_t of_index = bad_in_index();
  std::string instead = ", and others were served in their place";
  if (of_index == bad) instead = ", and the index left them out";
  if (of_index > 0 && of_index < bad)
    instead = ": the index left out " + std::to_string(of_index) + ", and others were served in place of the rest";
  console->warn(std::to_string(bad) + " of " + std::to_string(entries()) + " samples (" +
                percent_text(static_cast<double>(bad) / static_cast<double>(entries())) + ") are bad" + instead +
                (classes.empty() ? "" : ": " + classes) +
                (dir.empty() ? "" : "; " + printable(dir) + "/quarantine.*.jsonl names them"));
}

// Nobody knows in which part of a split those would be that the index left out. Rounded up: max_bad = 0 allows none.
std::uint64_t Run::bad_in_index() const noexcept {
  const auto all = static_cast<std::uint64_t>(std::ranges::count_if(dataset->skipped(), &Skipped::bad));
  const std::uint64_t samples = order->options().samples;
  if (samples >= dataset->size()) return all;
  const double share = static_cast<double>(samples) / static_cast<double>(dataset->size());
  return static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all)));
}

std::uint64_t Run::entries() const noexcept { return order->options().samples + bad_in_index(); }

// Without this line a replay that stops early would look complete.
void Run::say_where_the_recording_ends() {
  const std::uint64_t made = server->counts().steps;
  if (recorded_steps == 0 || made < recorded_steps || communicator->rank() != 0) return;
  const bool is_complete = options.run.steps > 0
                               ? steps() >= static_cast<std::uint64_t>(options.run.steps)
                               : ranks->epochs_completed() >= static_cast<std::uint64_t>(options.run.epochs);
  if (is_complete) return;
  console->info("the recording in " + printable(options.policy.recording) + " ends after " + std::to_string(made) +
                " steps, and with it this run");
}

}  // namespace forebay::feeder

// Makes the parts of a run, one step after the other; start_run() at the end lists them in order,
// and the order is that of their dependence. On the trainer's thread, inside the feeder's
// constructor, on all ranks at once.
//
// Every step that can fail on one rank alone runs inside collectively(), so that all ranks throw
// the same error and none is left waiting in a later collective call. Steps that are collective
// calls themselves (share_dataset, all_gather) must stand outside of it, and every rank must come
// to them in the same order whatever its options say: so a step may not be skipped by a condition
// that ranks do not share.

#include "startup.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>

#include "base/retry.hpp"
#include "data/guarded_dataset.hpp"
#include "data/source_files.hpp"
#include "data/video_samples.hpp"
#include "job/agreed_start.hpp"
#include "job/start_checks.hpp"
#include "measure/run_files.hpp"
#include "order/selection.hpp"
#include "ranks/agreed_error.hpp"
#include "read/hedging.hpp"

namespace forebay::feeder {
namespace {

// Memory that the ranks of a node share. Initially zero, and changed only by atomic operations of
// several processes, so each member is one naturally aligned 64-bit number.
struct NodeBoard {
  std::int64_t bandwidth;
  std::int64_t ranks;
  std::int64_t first_rank;  // plus one
};

// The steps of start_run(), in order. What concerns one rank alone is done collectively().
class Startup {
 public:
  Startup(Run& run, ranks::Loop loop) noexcept : run_(run), loop_(loop), began_(Run::Clock::now()) {}

  void agree_on_options();
  void resume_from(std::optional<job::SavedState> saved);
  void agree_on_parts();
  void agree_on_policy();
  void open_dataset();
  void size_queue();
  void make_schedule();
  void agree_on_recording();
  void meet_the_node();
  void open_logs();
  void meet_ranks();
  void choose_device();
  void start_production();
  void wait_for_first_batch();

 private:
  void agree_on_operations();
  [[nodiscard]] ranks::RunPlan run_plan() const;
  [[nodiscard]] ranks::BadLimit bad_limit() const;
  void start_pipeline();
  void start_server();
  void plan_first_batches();

  [[nodiscard]] std::uint32_t rank() const noexcept { return run_.communicator->rank(); }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return run_.communicator->size(); }
  [[nodiscard]] bool was_complete() const noexcept { return run_.resume_point.is_end_of(run_.options.run); }
  [[nodiscard]] std::uint64_t run_steps() const noexcept { return static_cast<std::uint64_t>(run_.options.run.steps); }
  template <typename Work>
  void collectively(Work&& work) {
    forebay::ranks::collectively(*run_.communicator, std::forward<Work>(work));
  }

  Run& run_;
  ranks::Loop loop_;  // that of the feeder that this one replaces
  Run::Clock::time_point began_;
  std::unique_ptr<RuledPolicy> policy_;  // until the server has it
  std::vector<std::string> notices_;     // about the job, for rank 0 to tell; some are empty
  std::string few_cores_;                // about this rank's cores; usually empty
  data::IndexRemark index_remark_;       // rank 0 compared it with its data
};

// That the options are equal on all ranks is not checked here but in require_same_run(), once the
// dataset is known.
void Startup::agree_on_options() {
  collectively([this] { validate(run_.options); });
  run_.options.queue.pool = ring::pool_of(run_.options.queue);  // for recordings and other parts of the run
  notices_.push_back(job::folders_notice(run_.options, *run_.communicator));  // as they were written
  collectively([this] {
    job::resolve_folders(run_.options);
    agree_on_operations();
  });
}

void Startup::agree_on_operations() {
  TransformOptions& transform = run_.options.transform;
  run_.operations = make::OperationChain(run_.given.operations, transform, run_.options.run.eval);
  if (transform.when == When::enqueue || run_.operations.can_render_later()) return;
  transform.when = When::enqueue;
  notices_.push_back(R"(transform.when = "enqueue" in place of "dequeue": the operation ")" +
                     run_.operations.first_call() +
                     R"(" needs the whole view, and only "colour" and then "erase", as the last, do not)");
}

void Startup::resume_from(std::optional<job::SavedState> saved) {
  if (saved) run_.resume_point = job::ResumePoint(*std::move(saved), run_.options);
}

// Saved states and recordings contain them, so they are in the options from here on.
void Startup::agree_on_parts() {
  run_.given_nodes = run_.options.dataset.nodes;
  run_.options.dataset.nodes =
      job::share_parts(run_.options, run_.resume_point.parts(), *run_.communicator, notices_.emplace_back());
}

void Startup::agree_on_policy() {
  collectively([this] {
    const std::uint64_t first_step = run_.resume_point.steps();
    if (job::is_replay(run_.options)) run_.replayed.emplace(run_.options, rank(), ranks(), first_step);
    const PolicyOptions rule = job::policy_options(run_.options, rank(), first_step);
    policy_ = with_rules(run_.given.policies.make(rule), rule);
  });
}

// What the index takes is measured as the growth of the process's resident memory. A dataset that
// the program gives was there before.
void Startup::open_dataset() {
  const Options& options = run_.options;
  run_.dataset = run_.given.dataset;
  if (!run_.dataset) {
    const IndexProgress progress = [](std::uint64_t, std::uint64_t) { InterruptCheck::poll(); };
    const std::uint64_t before = job::resident_bytes();
    const auto opened = job::share_dataset(options.dataset, *run_.communicator, progress, &index_remark_);
    run_.index_bytes = std::max(job::resident_bytes(), before) - before;
    if (options.run.eval) data::center_clips(*opened);
    run_.dataset = opened;
  }
  run_.safe_dataset = data::guarded(run_.dataset);
  run_.intake = dynamic_cast<const SourceIntake*>(run_.given.dataset.get());
  if (run_.given.dataset) collectively([this] { data::try_out(*run_.safe_dataset, run_.options.dataset.clip); });
  job::require_same_run(options, *run_.safe_dataset, *run_.communicator);
  const auto selection = job::share_selection(options, *run_.safe_dataset, *run_.dataset, *run_.communicator);
  if (selection) notices_.push_back(job::split_notice(selection->folder()));
  run_.order.emplace(job::order_options(options, selection ? selection->size() : run_.dataset->size(), selection));
}

// Alike on all ranks, whatever memory and devices they have.
void Startup::size_queue() {
  collectively([this] {
    run_.queue = run_.options.queue;
    run_.queue.capacity = ring::most_capacity(run_.options, slot_bytes(run_));
  });
}

// Evaluation has one epoch; a run of so many steps has as many epochs as it takes.
void Startup::make_schedule() {
  const Options& options = run_.options;
  if (run_.resume_point.is_saved()) run_.resume_point.require_same_job(run_.job());
  const order::Partition partition{.batches = run_.order->batches(),
                                   .shards = static_cast<std::uint32_t>(options.mpi.virtual_shards),
                                   .ranks = ranks(),
                                   .epochs = options.run.eval  ? 1
                                             : run_steps() > 0 ? UINT64_MAX
                                                               : static_cast<std::uint64_t>(options.run.epochs),
                                   .contiguous = run_.order->is_contiguous()};
  run_.schedule.emplace(*run_.order, run_.resume_point.take_ledger(partition), rank());
}

// A rank that was killed may have recorded less than the others: all end where the shortest recording does.
void Startup::agree_on_recording() {
  if (!run_.replayed) return;
  collectively([this] { run_.replayed->require_same_run(run_.job()); });
  run_.recorded_steps = run_.replayed->steps();
  for (const std::string& steps : run_.communicator->all_gather(std::to_string(run_.recorded_steps)))
    run_.recorded_steps = std::min<std::uint64_t>(run_.recorded_steps, std::stoull(steps));
}

// Before the logs, because their warnings depend on this rank's number of cores.
void Startup::meet_the_node() {
  run_.node_memory = job::share_or_own(*run_.communicator, sizeof(NodeBoard), notices_.emplace_back());
  auto* const board = reinterpret_cast<NodeBoard*>(run_.node_memory->bytes().data());
  job::NodeShare node =
      job::share_of_node(board->ranks, board->first_rank, *run_.communicator, cores_of_process(), launcher_place());
  run_.node = node.place;
  run_.room = std::move(node.room);
  run_.workers = produce::plan_workers(run_.options.workers, node.cores, node.share);
  notices_.push_back(std::move(node.notice));
  few_cores_ = few_cores_notice(node.cores, node.share);
}

// Rank 0 speaks for what all ranks have in common, the first rank of each node for its node.
void Startup::open_logs() {
  const Options& options = run_.options;
  const std::vector<Skipped>& skipped = run_.dataset->skipped();
  collectively([&] {
    run_.console.emplace(rank(), options.telemetry.live, stderr, run_.given.log);
    measure::make_run_directory(options.telemetry.dir);
    run_.directory = measure::DirectoryLock(options.telemetry.dir, rank());
    run_.quarantine.emplace(options.telemetry.dir, rank(), *run_.console);
    const auto warn = [&](const std::string& line) {
      if (!line.empty()) run_.console->warn(line);
    };
    run_.cache = data::open_cache(options, *run_.dataset, warn);
    if (run_.node.local_rank == 0) warn(few_cores_);
    if (rank() == 0) {
      std::ranges::for_each(job::start_warnings(options, run_.workers, ranks()), warn);
      std::ranges::for_each(notices_, warn);
      warn(job::batches_warning(options.run, run_.schedule->ledger().partition()));
      std::ranges::for_each(job::index_warnings(skipped), warn);
      const auto& [remark, is_warning] = index_remark_;
      if (!remark.empty()) is_warning ? warn(remark) : run_.console->info(remark);
      for (const Skipped& entry : skipped)
        if (entry.bad) run_.quarantine->add({.path = entry.path, .reason = entry.reason});
    }
    if (const std::string bad = run_.first_bad_in_index(); options.on_bad == OnBad::fail && !bad.empty())
      throw Error(bad + R"( (on_bad = "fail"; "replace" would leave it out and continue))");
    run_.clock.emplace(options.policy.watchdog_s);
  });
}

void Startup::meet_ranks() {
  // Ranks that hand batches over plan alike however long the run is, so that a shorter one repeats the same.
  const bool is_open = run_steps() == 0 || ranks::Ranks::may_rebalance(run_.options, ranks());
  run_.ranks.emplace(ranks::Ranks::Setup{
      .communicator = *run_.communicator,
      .schedule = *run_.schedule,
      .failure = run_.failure,
      .options = run_.options,
      .time = run_.clock->time(),
      .plan = run_plan(),
      .limit = bad_limit(),
      .queue = run_.queue,
      .turns = is_open ? UINT64_MAX : run_steps() - std::min(run_steps(), run_.resume_point.steps()),
      .loop = loop_,
      .stop_requested = [&run = run_] { return run.stop_requested(); }});
  const auto warn = [&console = *run_.console](const std::string& line) { console.warn(line); };
  run_.early_end.emplace(*run_.communicator, *run_.ranks, run_.options.policy.watchdog_s, warn);
  const double patience_s = std::max<double>(kSavePatience.count(), run_.options.policy.watchdog_s);
  run_.saves.emplace(*run_.communicator, run_.ranks->liveness(), std::chrono::duration<double>(patience_s), warn);
}

// Steps that a resumed run made before count: what is planned here are those still to come.
ranks::RunPlan Startup::run_plan() const {
  const order::Ledger& ledger = run_.schedule->ledger();
  ranks::RunPlan plan{.epochs = static_cast<std::uint64_t>(run_.options.run.epochs),
                      .steps = run_steps(),
                      .most_steps = run_.recorded_steps,
                      .completed = ledger.completed(),
                      .lag = static_cast<std::size_t>(run_.options.mpi.lag)};
  if (run_.options.run.eval) {
    const std::uint64_t all = order::most_batches(ledger.partition());
    plan.steps = run_steps() > 0 ? std::min(run_steps(), all) : all;
  }
  if (plan.steps > 0 && !was_complete()) plan.steps -= run_.resume_point.steps();
  return plan;
}

// The share refers to all entries, including those left out by the index; otherwise leaving out
// many would make the budget for the rest smaller.
ranks::BadLimit Startup::bad_limit() const {
  const std::string& dir = run_.options.telemetry.dir;
  const std::uint64_t entries = run_.order->options().samples + run_.bad_in_index();
  run_.lost_parts.emplace(*run_.safe_dataset, run_.order->options().selection);
  ranks::BadLimit limit{.allowed = ranks::allowed_bad(run_.options, entries),
                        .skipped = run_.bad_in_index(),
                        .first_skipped = run_.first_bad_in_index(),
                        .samples = entries,
                        .quarantine = dir.empty() ? "" : dir + "/quarantine.*.jsonl",
                        .name = [&dataset = *run_.safe_dataset](std::uint64_t sample) { return dataset.name(sample); }};
  if (!std::holds_alternative<AutomaticBudget>(run_.options.max_bad)) return limit;
  if (const auto file = run_.lost_parts->unreadable_file()) {
    throw Error(*file + "; mend the file, or set max_bad (a share such as 0.05, or a count) to run without the rest");
  }
  limit.lost = [&parts = *run_.lost_parts](const auto& bad) { return parts.find(bad); };
  return limit;
}

// A device that a predecessor handed over is kept with its stream, because the trainer may hold
// tensors on it.
void Startup::choose_device() {
  if (run_.device) return;  // the predecessor's
  device::DeviceChoice choice;
  collectively([&] {
    choice = device::make_device(run_.options.device, run_.node);
    run_.stream = choice.device->make_stream();
  });
  if (!choice.notice.empty() && run_.node.local_rank == 0) run_.console->info(choice.notice);
  // Ranks that know of each other learn below which of them share a GPU.
  if (!choice.doubt.empty() && (ranks() == 1 || choice.device->is_host())) run_.console->warn(choice.doubt);
  run_.may_leave_device = run_.options.device == "auto" && !choice.device->is_host();
  const std::vector<std::string> gpus = run_.communicator->all_gather(choice.gpu);
  const bool is_first = std::ranges::find(gpus, choice.gpu) - gpus.begin() == rank();
  if (const std::string notice = device::shared_gpu_notice(gpus, rank()); is_first && !notice.empty()) {
    run_.console->warn(notice);
  }
  run_.device = std::move(choice.device);
}

void Startup::start_production() {
  collectively([this] {
    make_store(run_);
    run_.jpeg = choose_jpeg_decoding(run_.options, run_.device, run_.workers.most.decode, *run_.console,
                                     run_.node.local_rank == 0);
    start_pipeline();
    start_server();
    if (!run_.schedule->awaits_order()) plan_first_batches();
  });
}

// Planned ahead: what the queue can hold, and lag + 1 batches more, which a rank serves while an
// exchange forbids it to plan (docs/design.md, "Rebalancing").
void Startup::start_pipeline() {
  const Options& options = run_.options;
  if (!run_.given.trace.empty()) run_.timeline.emplace(run_.given.trace, run_.given.trace_s, rank(), ranks());
  run_.journal.emplace(run_.timeline ? &*run_.timeline : nullptr);
  run_.pipeline.emplace(
      produce::PipelineLinks{
          .options = options,
          .capacity = run_.capacity,
          .dataset = *run_.safe_dataset,
          .order = *run_.order,
          .operations = run_.operations,
          .quarantine = *run_.quarantine,
          .console = *run_.console,
          .failure = run_.failure,
          .time = run_.clock->time(),
          .node_bandwidth = run_.node_memory->bytes().first(sizeof(NodeBoard::bandwidth)),
          .tell =
              [&run = run_](std::string_view line) {
                if (run.communicator->rank() == 0) run.console->info(line);
              },
          .may_be_slow = run_.given.dataset != nullptr || read::may_be_slow(options.dataset.path, *run_.dataset),
          .gpu_decoding = run_.jpeg.gpu.get(),
          .jpeg_kernels = run_.jpeg.kernels,
          .decode_index = run_.jpeg.index.get()},
      run_.store, run_.workers, static_cast<std::uint32_t>(run_.queue.capacity + options.mpi.lag + 1));
  run_.stop_listener.emplace(*run_.stop, run_.pipeline->ring());
  if (run_.timeline) run_.pipeline->note_in(*run_.timeline);
}

void Startup::start_server() {
  run_.server.emplace(
      serve::ServerLinks{.store = *run_.store,
                         .ring = run_.pipeline->ring(),
                         .time = run_.clock->time(),
                         .failure = run_.failure,
                         .left_pool = [&run = run_](std::uint64_t uses) { run.journal->batch_left_pool(uses); },
                         .stop_requested = [&run = run_] { return run.stop_requested(); },
                         .interrupted = [&run = run_] { return run.interrupted(); },
                         .workers = [&run = run_] { return run.pipeline->report(); },
                         .warn = [&run = run_](const std::string& line) { run.console->warn(line); },
                         .open_epochs = order::Ledger::kEpochs + 1,
                         .is_paused = [&run = run_] { return run.intake != nullptr && run.intake->is_paused(); }},
      run_.options, std::move(policy_));
}

// Without a batch to show, a rank could not make the steps that the others make; padding is planned
// for it.
void Startup::plan_first_batches() {
  // A rank that resumes where it has nothing left of the epoch in which the others are, and waits for them, gets a
  // batch to pad with: it has no resident one yet.
  if (run_.ranks->end_epochs_together() && run_.schedule->upcoming() > run_.schedule->ledger().completed()) {
    run_.pipeline->plan(run_.schedule->padding());
  }
  run_.pipeline->plan_ahead([this](std::uint64_t backlog) { return run_.ranks->next_batch(backlog, 0); });
  // So does a rank without a batch of its own.
  if (run_.pipeline->backlog() == 0 && !run_.options.run.eval) run_.pipeline->plan(run_.schedule->padding());
  run_.pipeline->ring().settle();
}

// The constructor returns with a batch ready, so that what cannot work at all fails here and not
// inside the training loop. Whoever stops or fails meanwhile breaks the waits of the others.
void Startup::wait_for_first_batch() {
  collectively([this] {
    if (was_complete() || run_.schedule->awaits_order() || run_.server->wait_for_first_batch()) return;
    run_.ranks->liveness().alert_at_once();  // the others need not wait for their batches
    if (run_.stop_requested()) return;
    run_.ranks->report_failure();
    if (run_.failure.happened()) run_.failure.rethrow();
    // Another rank wants to end; the next collective step settles which one, and why.
  });
  const auto stops = run_.communicator->all_gather(run_.stop_requested() ? "stop" : "");
  run_.startup_s = std::chrono::duration<double>(Run::Clock::now() - began_).count();
  run_.was_stopped = !was_complete() && std::ranges::any_of(stops, [](const auto& stop) { return !stop.empty(); });
  run_.has_ended = was_complete() || run_.was_stopped;
  if (was_complete() && rank() == 0) run_.console->warn(run_.resume_point.describe_complete());
  run_.ranks->liveness().watch_gathers();
}

}  // namespace

// `before`: what a feeder that resumes or begins anew hands over. Once threads of production run,
// an error has to end them before the parts that they use are destroyed.
RunOwner start_run(Options options, std::unique_ptr<Communicator> communicator, Parts parts,
                   std::shared_ptr<StopRequest> stop, std::optional<Handover> before) {
  RunOwner run(new Run);
  run->options = std::move(options);
  run->communicator = std::move(communicator);
  run->given = std::move(parts);
  run->stop = std::move(stop);
  const InterruptCheck check([&run = *run] { run.hear_at_start(); });
  Startup startup(*run, before ? before->loop : ranks::Loop::unknown);
  startup.agree_on_options();
  if (before) {
    run->device = std::move(before->device);
    run->stream = before->stream;
    startup.resume_from(std::move(before->saved));
  } else {
    startup.resume_from(job::share_state(run->given.resume, *run->communicator));
  }
  startup.agree_on_parts();
  startup.agree_on_policy();
  startup.open_dataset();
  startup.size_queue();
  startup.make_schedule();
  startup.agree_on_recording();
  startup.meet_the_node();
  startup.open_logs();
  startup.meet_ranks();
  startup.choose_device();
  startup.start_production();
  try {
    startup.wait_for_first_batch();
  } catch (const std::exception& error) {
    run->end_production(error.what());
    throw;
  }
  return run;
}

}  // namespace forebay::feeder

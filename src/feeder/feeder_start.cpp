#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>

#include "base/text.hpp"
#include "data/guarded_dataset.hpp"
#include "feeder_impl.hpp"
#include "job/agreed_start.hpp"
#include "job/available_memory.hpp"
#include "job/start_warnings.hpp"
#include "make/renderers.hpp"
#include "measure/run_files.hpp"
#include "order/selection.hpp"
#include "ranks/collectively.hpp"
#include "read/hedging.hpp"
#include "ring/queue_slots.hpp"

namespace forebay {
namespace {

// Memory that the ranks of a node share.
struct NodeBoard {
  std::int64_t bandwidth;
  std::int64_t ranks;
  std::int64_t first_rank;  // plus one
};

}  // namespace

Feeder::Impl::Impl(Options options, std::unique_ptr<Communicator> communicator, Parts parts,
                   std::shared_ptr<StopRequest> stop, std::optional<Predecessor> before)
    : options_(std::move(options)),
      communicator_(std::move(communicator)),
      parts_(std::move(parts)),
      stop_(std::move(stop)),
      constructed_(Clock::now()) {
  agree_on_options();
  agree_on_operations();
  take_over(std::move(before));
  agree_on_policy();
  open_dataset_and_order();
  make_schedule();
  agree_on_recording();
  meet_the_node();
  collectively(*communicator_, [this] {
    open_logs();
    running_ = std::make_unique<RunningClock>(options_.policy.watchdog_s);
  });
  meet_ranks();
  choose_device();
  collectively(*communicator_, [this] { start_production(); });
  collectively(*communicator_, [this] { wait_for_first_batch(); });
  end_if_stopped_at_start();
  ranks_->attendance().watch_gathers();
}

void Feeder::Impl::agree_on_options() {
  collectively(*communicator_, [this] { validate(options_); });
}

void Feeder::Impl::agree_on_policy() {
  collectively(*communicator_, [this] {
    const std::uint32_t rank = communicator_->rank();
    if (is_replay(options_)) replayed_.emplace(options_, rank, communicator_->size(), first_step());
    const PolicyOptions rule = policy_options(options_, rank, first_step());
    policy_ = with_rules(parts_.policies.make(rule), rule);
  });
}

void Feeder::Impl::agree_on_operations() {
  collectively(*communicator_, [this] {
    operations_ = OperationChain(parts_.operations, options_.transform, options_.run.eval);
    if (options_.transform.when == When::enqueue || operations_.has_twin()) return;
    options_.transform.when = When::enqueue;
    operations_notice_ = R"(transform.when = "enqueue" in place of "dequeue": the operation ")" +
                         operations_.first_call() +
                         R"(" needs the whole view, and only "colour" and then "erase", as the last, do not)";
  });
}

void Feeder::Impl::open_dataset_and_order() {
  const std::uint64_t resident = resident_bytes();
  dataset_ = parts_.dataset ? parts_.dataset : share_dataset(options_.dataset, *communicator_);
  if (const std::uint64_t now = resident_bytes(); !parts_.dataset && now > resident) index_bytes_ = now - resident;
  safe_dataset_ = guarded(dataset_);
  if (safe_dataset_ != dataset_) collectively(*communicator_, [this] { try_out(*safe_dataset_); });
  require_same_run(options_, *safe_dataset_, *communicator_);
  const bool in_order = options_.run.eval;
  const auto selection = share_selection(options_, *safe_dataset_, *communicator_);
  order_.emplace(OrderOptions{.samples = selection ? selection->size() : dataset_->size(),
                              .batch_size = static_cast<std::uint32_t>(options_.dataset.batch_size),
                              .seed = options_.seed,
                              .shuffle = options_.dataset.shuffle && !in_order,
                              .drop_last = options_.dataset.drop_last && !in_order,
                              .selection = selection});
}

// A rank that was killed may have recorded less than the others: all end where the shortest recording does.
void Feeder::Impl::agree_on_recording() {
  if (!replayed_) return;
  collectively(*communicator_, [this] { replayed_->require_dataset(*safe_dataset_); });
  recorded_steps_ = replayed_->steps();
  for (const std::string& steps : communicator_->all_gather(std::to_string(replayed_->steps()))) {
    recorded_steps_ = std::min<std::uint64_t>(recorded_steps_, std::stoull(steps));
  }
}

void Feeder::Impl::meet_the_node() {
  node_memory_ = communicator_->share_on_node(sizeof(NodeBoard));
  auto* const board = reinterpret_cast<NodeBoard*>(node_memory_->bytes().data());
  node_ = place_on_node(board->ranks, board->first_rank, *communicator_);
  workers_ = plan_workers(options_.workers, node_.local_ranks);
}

void Feeder::Impl::open_logs() {
  const std::string& dir = options_.telemetry.dir;
  const std::uint32_t rank = communicator_->rank();
  console_ = std::make_unique<ConsoleLog>(rank, options_.telemetry.live, stderr, parts_.log);
  make_run_directory(dir);
  directory_ = DirectoryLock(dir, rank);
  quarantine_ = std::make_unique<QuarantineLog>(dir, rank, *console_);
  if (rank == 0) {
    for (const std::string& warning : start_warnings(options_, workers_)) console_->warn(warning);
    if (!operations_notice_.empty()) console_->warn(operations_notice_);
    for (const Skipped& skipped : dataset_->skipped()) {
      if (skipped.bad) quarantine_->add({.path = skipped.path, .reason = skipped.reason});
    }
  }
  const auto bad = std::ranges::find_if(dataset_->skipped(), &Skipped::bad);
  if (options_.on_bad == OnBad::fail && bad != dataset_->skipped().end()) {
    throw Error(bad->path + ": " + bad->reason + R"( (on_bad = "fail"; "replace" would leave it out and go on))");
  }
}

void Feeder::Impl::choose_device() {
  if (device_) return;
  DeviceChoice choice;
  collectively(*communicator_, [&] {
    choice = make_device(options_.device, node_);
    stream_ = choice.device->make_stream();
  });
  if (!choice.notice.empty() && node_.local_rank == 0) console_->info(choice.notice);
  const std::vector<std::string> gpus = communicator_->all_gather(choice.gpu);
  const std::uint32_t rank = communicator_->rank();
  const bool is_first = std::ranges::find(gpus, choice.gpu) - gpus.begin() == rank;
  if (const std::string notice = shared_gpu_notice(gpus, rank); is_first && !notice.empty()) console_->warn(notice);
  device_ = std::move(choice.device);
}

void Feeder::Impl::make_store() {
  const QueueOptions& queue = options_.queue;
  SlotFormat format{.batch_size = static_cast<std::uint32_t>(options_.dataset.batch_size),
                    .height = options_.transform.size[0],
                    .width = options_.transform.size[1],
                    .dtype = options_.transform.dtype,
                    .layout = options_.transform.layout};
  if (options_.transform.when == When::dequeue) format.canvas = canvas_format(options_.transform, format.batch_size);
  const SlotCounts counts{.slots = static_cast<std::uint32_t>(slots_of(queue)),
                          .capacity = static_cast<std::uint32_t>(queue.capacity),
                          .max_leases = static_cast<std::uint32_t>(queue.max_leases),
                          .run_ahead = static_cast<std::uint32_t>(queue.run_ahead)};
  const SlotMemory memory = SlotStore::memory_of(format, counts, device_->is_host());
  const RingNeed need{.slots = device_->is_host() ? counts.slots : counts.capacity,
                      .bytes = device_->is_host() ? memory.slots + memory.outputs : memory.staging,
                      .ranks_on_node = node_.local_ranks,
                      .on_host = device_->is_host()};
  if (const std::string warning = require_memory(need, available_memory()); !warning.empty()) console_->warn(warning);
  store_ = std::make_shared<SlotStore>(device_, format, counts);
  if (format.canvas) store_->set_renderer(make_renderer(format.batch_size));
}

std::unique_ptr<CanvasRenderer> Feeder::Impl::make_renderer(std::uint32_t batch_size) const {
  const TransformOptions& transform = options_.transform;
  const RenderPlan plan = make_render_plan(transform, options_.seed, options_.run.eval, batch_size, operations_);
  if (device_->is_host()) {
    return std::make_unique<HostRenderer>(transform, plan);
  }
  return device_->make_renderer(plan);
}

void Feeder::Impl::choose_decoder() {
  if (options_.workers.jpeg != JpegLibrary::nvjpeg) return;
  GpuDecodingChoice choice = make_gpu_decoding(options_.transform, device_, workers_.most.decode);
  gpu_decoding_ = std::move(choice.decoding);
  if (node_.local_rank != 0) return;
  if (gpu_decoding_) {
    console_->info(choice.notice);
  } else {
    console_->warn(choice.notice);
  }
}

void Feeder::Impl::start_production() {
  const QueueOptions& queue = options_.queue;
  make_store();
  choose_decoder();
  counters_ = std::make_unique<RunCounters>();
  pipeline_ = std::make_unique<Pipeline>(
      PipelineLinks{.options = options_,
                    .dataset = *safe_dataset_,
                    .order = *order_,
                    .operations = operations_,
                    .quarantine = *quarantine_,
                    .console = *console_,
                    .failure = failure_,
                    .node_bandwidth = node_memory_->bytes().first(sizeof(NodeBoard::bandwidth)),
                    .tell =
                        [this](std::string_view line) {
                          if (communicator_->rank() == 0) console_->info(line);
                        },
                    .may_be_slow = parts_.dataset != nullptr || may_be_slow(options_.dataset.path, *dataset_),
                    .gpu_decoding = gpu_decoding_.get()},
      store_, workers_, static_cast<std::uint32_t>(queue.capacity + options_.mpi.lag + 1));
  stop_listener_.emplace(*stop_, pipeline_->ring());
  server_.emplace(ServerLinks{.store = *store_,
                              .ring = pipeline_->ring(),
                              .time = running_->time(),
                              .failure = failure_,
                              .retired = [this](std::uint64_t uses) { counters_->batch_retired(uses); },
                              .stop_requested = [this] { return stop_requested(); },
                              .interrupted = [this] { return ranks_->interrupted(); },
                              .workers = [this] { return pipeline_->report(); },
                              .open_epochs = Ledger::kEpochs + 1},
                  options_, std::move(policy_));
  start_timeline();
  begin_plan();
}

void Feeder::Impl::begin_plan() {
  // A rank that went on where it has nothing left of the epoch in which the others are, and waits for them, gets a
  // batch to pad with: it has no resident one yet.
  if (ranks_->end_epochs_together() && schedule_->upcoming() > schedule_->ledger().completed()) {
    pipeline_->plan(schedule_->padding());
  }
  plan_ahead(0);
  // So does a rank without a batch of its own.
  if (pipeline_->ring().planned() == 0 && !options_.run.eval) pipeline_->plan(schedule_->padding());
  pipeline_->ring().settle();
}

void Feeder::Impl::meet_ranks() {
  // Ranks that hand batches over plan alike however long the run is, so that a shorter one repeats the same.
  const auto steps = static_cast<std::uint64_t>(options_.run.steps);
  const bool is_open = steps == 0 || Ranks::hand_over(options_, communicator_->size());
  ranks_.emplace(Ranks::Setup{.communicator = *communicator_,
                              .schedule = *schedule_,
                              .failure = failure_,
                              .options = options_,
                              .time = running_->time(),
                              .plan = run_plan(),
                              .limit = bad_limit(),
                              .turns = is_open ? UINT64_MAX : steps - std::min(steps, first_step()),
                              .loop = loop_at_start_,
                              .stop_requested = [this] { return stop_requested(); }});
  completed_ = epochs_completed();
  saves_.emplace(*communicator_, ranks_->attendance(), [this](const char* what) { console_->warn(what); });
}

RunPlan Feeder::Impl::run_plan() const {
  RunPlan plan{.epochs = static_cast<std::uint64_t>(options_.run.epochs),
               .steps = static_cast<std::uint64_t>(options_.run.steps),
               .most_steps = recorded_steps_,
               .completed = schedule_->ledger().completed(),
               .lag = static_cast<std::size_t>(options_.mpi.lag)};
  if (options_.run.eval) plan.steps = batches_of(schedule_->ledger().deal(), 0);  // no rank has more
  if (plan.steps > 0 && !was_complete()) plan.steps -= first_step();
  return plan;
}

BadLimit Feeder::Impl::bad_limit() const {
  const auto skipped = static_cast<std::uint64_t>(std::ranges::count_if(dataset_->skipped(), &Skipped::bad));
  const std::uint64_t entries = order_->options().samples + skipped;
  return {.allowed = allowed_bad(options_.max_bad, entries),
          .skipped = skipped,
          .samples = entries,
          .quarantine = options_.telemetry.dir.empty() ? "" : options_.telemetry.dir + "/quarantine.*.jsonl"};
}

void Feeder::Impl::wait_for_first_batch() {
  if (was_complete()) return;
  if (server_->wait_for_first_batch() || stop_requested()) return;
  ranks_->report_failure();  // the others need not wait for their batches
  if (failure_.happened()) failure_.rethrow();
  // Another rank wants to end: which, and why, is settled by what the ranks do together next.
}

void Feeder::Impl::end_if_stopped_at_start() {
  const auto stops = communicator_->all_gather(stop_requested() ? "stop" : "");
  startup_s_ = std::chrono::duration<double>(Clock::now() - constructed_).count();
  was_stopped_ = !was_complete() && std::ranges::any_of(stops, [](const std::string& stop) { return !stop.empty(); });
  ended_ = was_complete() || was_stopped_;
}

// Not in the constructor: until the first next() the run may still go on from a saved state, and its files with it.
void Feeder::Impl::begin() {
  try {
    if (ranks_->loop() == Loop::unknown) (void)ranks_->agree_on_loop(Loop::batches, false);
    collectively(*communicator_, [this] { open_telemetry(); });
  } catch (const std::exception& error) {
    telemetry_.reset();
    // All ranks have it.
    if (communicator_->size() > 1 && !ranks_->attendance().is_over()) {
      ended_ = true;
      cause_ = error.what();
    }
    throw;
  }
  if (!resumed_ || communicator_->rank() != 0) return;
  console_->info("resumes from " + printable(resumed_from_.source) + ": step " + std::to_string(first_step()) +
                 ", epoch " + std::to_string(resumed_->epochs) + ", " + std::to_string(resumed_->fresh_samples) +
                 " samples served fresh, saved by " + std::to_string(resumed_->ranks) +
                 (resumed_->ranks == 1 ? " rank" : " ranks"));
}

void Feeder::Impl::open_telemetry() {
  const std::uint32_t rank = communicator_->rank();
  // A job that was stopped before its first step has put nothing here.
  const bool goes_on = first_step() > 0;
  if (!goes_on) clear_run_directory(options_.telemetry.dir, rank, communicator_->size());
  quarantine_->begin();
  TelemetrySetup telemetry{.options = options_.telemetry,
                           .rank = rank,
                           .capacity = static_cast<std::uint32_t>(options_.queue.capacity),
                           .goes_on = goes_on};
  if (is_recorded(options_)) {
    telemetry.recording = recording_header(options_, *safe_dataset_, rank, communicator_->size(), first_step());
    note_loop(*telemetry.recording, ranks_->loop() == Loop::epochs);
  }
  if (replayed_) replayed_->require_loop(ranks_->loop() == Loop::epochs);
  telemetry_ = std::make_unique<Telemetry>(
      telemetry, pipeline_->totals(), [this] { return gauges(); }, *console_);
  start_profiler();
}

Gauges Feeder::Impl::gauges() const {
  const SlotRing& ring = pipeline_->ring();
  return {.depth = ring.depth_guess(),
          .produced = ring.published(),
          .blocked_s = std::chrono::duration<double>(ring.blocked()).count(),
          .bad_samples = quarantine_->count()};
}

Summary Feeder::Impl::summary() const {
  const WorkerTotals& totals = pipeline_->totals();
  const Summary facts{.startup_s = startup_s_,
                      .blocked_s = gauges().blocked_s,
                      .bad_samples = ranks_->bad_samples(),
                      .left_out = server_->counts().left_out,
                      .epochs = epochs_completed(),
                      .bytes_read = totals.bytes_read.load(std::memory_order_relaxed),
                      .hedged_reads = totals.hedged_reads.load(std::memory_order_relaxed),
                      .hedges_won = totals.hedges_won.load(std::memory_order_relaxed),
                      .nvjpeg_samples = totals.nvjpeg_samples.load(std::memory_order_relaxed),
                      .nvjpeg_fallbacks = totals.nvjpeg_fallbacks.load(std::memory_order_relaxed),
                      .dropped_records = telemetry_ ? telemetry_->dropped() : 0};
  std::vector<std::uint64_t> resident;
  for (const std::uint32_t slot : server_->residents()) resident.push_back(store_->slot(slot).uses);
  return counters_->summary(facts, resident);
}

}  // namespace forebay

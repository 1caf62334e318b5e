#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/feeder.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "base/clock.hpp"
#include "base/ending.hpp"
#include "base/thread.hpp"
#include "device/device_choice.hpp"
#include "device/gpu_decoding.hpp"
#include "job/replay.hpp"
#include "job/resume.hpp"
#include "job/start_checks.hpp"
#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/operation_chain.hpp"
#include "measure/console_log.hpp"
#include "measure/journal.hpp"
#include "measure/quarantine_log.hpp"
#include "measure/run_files.hpp"
#include "measure/timeline_file.hpp"
#include "order/schedule.hpp"
#include "produce/pipeline.hpp"
#include "produce/tuner.hpp"
#include "ranks/early_end.hpp"
#include "ranks/lost_part.hpp"
#include "ranks/ranks.hpp"
#include "ranks/saves.hpp"
#include "serve/server.hpp"
#include "source_intake.hpp"
#include "stop_request.hpp"
#include "store/cache.hpp"

namespace forebay::feeder {

// The decoders of JPEG files of a run.
struct JpegDecoding {
  const jpeg::PixelKernels* kernels = nullptr;     // see JpegDecoder
  std::unique_ptr<const jpeg::DecodeIndex> index;  // likewise
  std::unique_ptr<device::GpuDecoding> gpu;        // null = the decoder threads decode everything
};

// Follows workers.jpeg as far as possible, and uses the decode index beside dataset.index, if there is one. If
// something else is chosen, `console` says so on the first rank of each node; problems of this rank alone are always
// logged. The console must outlive the result. `threads`: the most decoder threads.
[[nodiscard]] JpegDecoding choose_jpeg_decoding(const Options& options, std::shared_ptr<device::Device> device,
                                                unsigned threads, measure::ConsoleLog& console, bool is_first);

// The parts of a run, in the order of their dependence; each may use those above it.
struct Run {  // NOLINT(clang-analyzer-optin.performance.Padding): the order is that of their dependence
  using Clock = ring::SlotRing::Clock;

  Options options;
  std::int64_t given_nodes = 0;  // dataset.nodes, before it was settled
  std::unique_ptr<Communicator> communicator;
  Parts given;                        // by the program
  std::shared_ptr<StopRequest> stop;  // shared with the run that may replace this one
  job::ResumePoint resume_point;
  std::optional<job::ReplayedRun> replayed;
  std::uint64_t recorded_steps = 0;               // steps of the replayed run, summed over its ranks; 0 = no replay
  std::shared_ptr<const Dataset> dataset;         // as the program sees it
  std::shared_ptr<const Dataset> safe_dataset;    // the same, with its contract enforced (guarded_dataset.hpp)
  const SourceIntake* intake = nullptr;           // the same, if it is a source of batches
  std::shared_ptr<const store::NodeCache> cache;  // null: none
  std::uint64_t index_bytes = 0;                  // growth of the process when it was opened; 0 = unknown or negligible
  std::optional<Order> order;
  std::optional<ranks::LostParts> lost_parts;
  std::optional<order::Schedule> schedule;
  QueueOptions queue;  // with "auto" replaced by the largest possible number
  std::unique_ptr<SharedMemory> node_memory;
  device::NodePlace node;
  job::AvailableMemory room;
  produce::WorkerPlan workers;

  std::optional<measure::ConsoleLog> console;
  measure::DirectoryLock directory;
  std::optional<measure::QuarantineLog> quarantine;
  std::uint64_t bad_elsewhere = 0;  // entries in it that do not count here: bad_in_index() is the share of a part
  Failure failure;
  std::optional<RunningClock> clock;
  std::optional<ranks::Ranks> ranks;
  std::optional<ranks::EarlyEnd> early_end;
  std::optional<ranks::Saves> saves;
  std::shared_ptr<device::Device> device;
  bool may_leave_device = false;  // in favour of the host: nobody has requested this GPU by name or has its stream
  StreamView stream;              // the device's, for trainers that have none
  ring::Capacity capacity = 1;    // of the ring; at most that of the queue, as far as memory has room
  std::shared_ptr<SlotStore> store;
  std::vector<Field> fields;  // of every batch
  JpegDecoding jpeg;
  make::OperationChain operations;
  std::optional<measure::Timeline> timeline;  // none = no trace was requested
  std::optional<produce::Pipeline> pipeline;
  std::optional<StopRequest::Listener> stop_listener;
  std::optional<measure::Journal> journal;
  std::optional<serve::Server> server;

  bool has_ended = false;  // before its first step: the saved run was over, or a stop was requested
  bool was_stopped = false;
  double startup_s = 0;
  std::optional<Clock::time_point> stop_heard;  // at the start

  [[nodiscard]] bool stop_requested() const noexcept {
    return stop->is_made() || (given.stop != nullptr && given.stop->load(std::memory_order_relaxed));
  }
  // Called while the start waits for a store. Throws what the program's hook throws, and Error some time after a stop.
  void hear_at_start();
  // Called every few milliseconds of a wait: whether a rank wants to end. Throws what the program's hook throws.
  [[nodiscard]] bool interrupted();
  // Tells the other ranks, with the next step, of bad samples found since.
  void report_bad();
  // Steps since the run began; the server counts those of this process.
  [[nodiscard]] std::uint64_t steps() const noexcept { return resume_point.steps() + server->counts().steps; }
  // Samples known to have been served fresh by the job since the run began.
  [[nodiscard]] std::uint64_t job_fresh_samples() const noexcept;
  // Entries that the index left out as bad; of a part, a fraction or weighted samples, their share.
  [[nodiscard]] std::uint64_t bad_in_index() const noexcept;
  // Path and reason of the first of them, for messages; "" if there is none.
  [[nodiscard]] std::string first_bad_in_index() const;
  // The part common to all states of this job.
  [[nodiscard]] const order::JobState& job();
  // This rank's undelivered batches.
  [[nodiscard]] std::vector<order::BatchRange> left() const;

  // Collective, before the first step.
  void open_journal();
  // --- the end; all waits are bounded (base/ending.hpp)
  // Ends the threads that produce batches, and waits for them. If one is stuck in a call that does not return, soon
  // says so, with `cause`, and finally leaves it behind and returns false: whatever it may use must then stay. `hear`
  // is called every few milliseconds of the wait; if it throws, the function ends with that exception and may be called
  // again.
  bool end_production(const std::string& cause, const std::function<void()>& hear = {});
  // The same; then writes pending files, and disconnects from the other ranks. `cause`: why the run ends; "" =
  // normally.
  void close(const std::string& cause);
  // Whether a thread was left behind.
  [[nodiscard]] bool is_left_behind() const noexcept { return is_left_behind_; }

  // --- a step
  // This rank's report to the others before the step.
  [[nodiscard]] ranks::RankReport report(Clock::time_point now) noexcept;
  [[nodiscard]] ranks::RankCount count() const noexcept;
  // What is known of it before it is served.
  [[nodiscard]] serve::StepContext context() noexcept;
  // It returns now. Its times are the journal's.
  [[nodiscard]] measure::StepRecord record_of(const serve::Served& served, Clock::time_point now) noexcept;

  // --- what it tells of itself
  [[nodiscard]] measure::Gauges gauges() const;  // any thread
  [[nodiscard]] double cache_bound() const;
  [[nodiscard]] Summary summary() const;
  // The line at start-up.
  [[nodiscard]] std::string describe() const;
  void say_what_was_left_out();
  // REQUIRES: all ranks end here; then they know of the same bad samples.
  void say_what_was_replaced();
  void say_where_the_recording_ends();

 private:
  void end_files(const std::string& cause);
  void end_saves() noexcept;
  void log_end(const std::string& cause) noexcept;
  void write_trace() noexcept;
  // Samples that it serves, and bad_in_index().
  [[nodiscard]] std::uint64_t entries() const noexcept;
  [[nodiscard]] ranks::Progress progress(Clock::time_point now) noexcept;

  std::optional<order::JobState> job_;          // once it was asked for
  std::unique_ptr<EndingWork> production_end_;  // once it was begun
  bool is_left_behind_ = false;
};

// Ends a run before it destroys it. A run of which a thread was left behind stays in memory instead: that thread may
// wake up one day.
struct EndOfRun {
  void operator()(Run* run) const noexcept;
};
using RunOwner = std::unique_ptr<Run, EndOfRun>;

}  // namespace forebay::feeder

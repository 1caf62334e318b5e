#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/order.hpp>

#include "base/failure.hpp"
#include "base/running_time.hpp"
#include "device/device_choice.hpp"
#include "device/gpu_decoding.hpp"
#include "job/replay.hpp"
#include "measure/console_log.hpp"
#include "measure/counters.hpp"
#include "measure/profiler.hpp"
#include "measure/quarantine_log.hpp"
#include "measure/run_files.hpp"
#include "measure/telemetry.hpp"
#include "measure/timeline_file.hpp"
#include "order/job_state.hpp"
#include "order/schedule.hpp"
#include "produce/pipeline.hpp"
#include "ranks/ranks.hpp"
#include "ranks/saves.hpp"
#include "serve/server.hpp"
#include "stop_request.hpp"

namespace forebay {

// A job's state as it was saved, and where it came from, for messages.
struct SavedState {
  std::string text;
  std::string source;
};

// What a feeder takes over from the one in whose place it comes: trainers hold on to the stream.
struct Predecessor {
  SavedState saved;
  std::shared_ptr<Device> device;
  StreamView stream;
  Loop loop = Loop::unknown;
};

// The composition root: makes the rooms' parts from the options and drives them from next(). Members stand in the
// order of their dependence; each may use those above it.
class Feeder::Impl {
 public:
  // Collective. `before`: the job resumes from what that was told; else from parts.resume, when there is such a file.
  Impl(Options options, std::unique_ptr<Communicator> communicator, Parts parts, std::shared_ptr<StopRequest> stop,
       std::optional<Predecessor> before = std::nullopt);
  ~Impl() { close(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::optional<Lease> next(StreamView stream);
  [[nodiscard]] bool next_epoch();
  // Collective, and where the loop is known already a look at it. A feeder in this one's place that can begin with a
  // loop over epochs, where this one cannot, or null; this one is then closed.
  [[nodiscard]] std::unique_ptr<Impl> begun_by_epochs();
  [[nodiscard]] StreamView stream() const noexcept { return stream_; }
  void close();
  // After close(), on rank 0: throws the error of a save that nobody was told of.
  void throw_failed_save();

  // Collective.
  [[nodiscard]] std::string state();
  void save(const std::filesystem::path& file);
  void finish_saves();
  [[nodiscard]] std::optional<SavedState> saved_in(const std::filesystem::path& file);
  // Throws Error once a step was made or the feeder was closed: from then on nothing can be restored.
  void require_not_begun() const;
  // A feeder in this one's place that resumes from there; this one is closed.
  [[nodiscard]] std::unique_ptr<Impl> resumed(SavedState saved);

  [[nodiscard]] Summary summary() const;
  [[nodiscard]] Profile profile() const;
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] const std::shared_ptr<const Dataset>& dataset() const noexcept { return dataset_; }
  [[nodiscard]] const Order& order() const noexcept { return *order_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return first_step() + steps_made(); }
  [[nodiscard]] bool was_stopped() const noexcept { return was_stopped_; }
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return ranks_->epochs_completed(); }

 private:
  using Clock = SlotRing::Clock;

  // Construction, in order.
  void agree_on_options();
  void take_over(std::optional<Predecessor> before);
  void refuse_in_evaluation(const std::string& source) const;
  void agree_on_policy();
  void agree_on_operations();
  void open_dataset_and_order();
  void make_schedule();
  void agree_on_recording();
  void meet_the_node();
  void open_logs();
  void choose_device();
  void make_store();
  [[nodiscard]] std::unique_ptr<CanvasRenderer> make_renderer(std::uint32_t batch_size) const;
  void choose_decoder();
  void start_production();
  void begin_plan();
  void wait_for_first_batch();
  void end_if_stopped_at_start();
  void meet_ranks();
  // A resumed run that had ended already.
  [[nodiscard]] bool was_complete() const noexcept;
  [[nodiscard]] RunPlan run_plan() const;
  [[nodiscard]] BadLimit bad_limit() const;

  void start_timeline();
  void start_profiler();
  // REQUIRES: a timeline; before last_return_ is set anew.
  void trace_step(const StepRecord& step, Clock::time_point entered, Clock::time_point now) noexcept;
  void write_trace() noexcept;

  // What telemetry asks for; any thread.
  [[nodiscard]] Gauges gauges() const;

  // What every state of this job has in common. Made once: the fingerprint goes through the whole index.
  [[nodiscard]] const JobState& job();
  // What this rank has not delivered of what is its own.
  [[nodiscard]] std::vector<Piece> left() const;

  // next(), in order.
  [[nodiscard]] std::optional<Lease> step(StreamView wanted, Clock::time_point called);
  // The stream to use.
  [[nodiscard]] StreamView checked(StreamView stream);
  void begin();
  void open_telemetry();
  // When the device has come near enough; `called` where it had before.
  [[nodiscard]] Clock::time_point keep_pace(Clock::time_point called);
  [[nodiscard]] bool agree_to_go_on(Clock::time_point entered);
  // `entered`: when the device had come near enough, the one reading of the clock that a step needs before its end.
  [[nodiscard]] Served serve(Clock::time_point entered);
  [[nodiscard]] Served serve_in_lockstep();
  [[nodiscard]] Outlook outlook() noexcept;
  [[nodiscard]] std::uint32_t render(const Served& served, StreamView stream);
  void end_if_device_refused();
  // What this rank tells the others before a step.
  [[nodiscard]] Ranks::Standing standing(Clock::time_point now) noexcept;
  [[nodiscard]] Progress progress(Clock::time_point now) noexcept;
  // `fresh`: batches that this rank has served fresh.
  void plan_ahead(std::uint64_t fresh);
  // After a batch was taken.
  void plan_further(std::uint64_t fresh);
  void record(const Served& served, Clock::time_point entered, Clock::duration ahead);
  void say_where_the_recording_ends();
  void say_what_was_left_out();

  [[nodiscard]] bool is_between_epochs() const noexcept { return ranks_->loop() == Loop::epochs && !is_in_epoch_; }
  // The others' last step of this epoch is agreed on, and this one's; next() is about to say so.
  void leave_epoch(Clock::time_point entered) noexcept;

  // The others wait for what this rank has ready.
  [[nodiscard]] bool is_waited_for() const noexcept;
  // True when this rank has nothing fresh to serve until the others have caught up.
  [[nodiscard]] bool must_pad() noexcept;
  void warn_of_capped_reuses();

  // A rank that ends without the others.
  void end_alone(const char* what);
  void leave_mid_run();
  // The end of the talk between the ranks; bounded.
  void part();

  [[nodiscard]] bool stop_requested() const noexcept;
  [[nodiscard]] std::uint64_t first_step() const noexcept { return resumed_ ? resumed_->steps : 0; }
  // Since this process began; first_step() were made before.
  [[nodiscard]] std::uint64_t steps_made() const noexcept { return server_->counts().steps; }
  [[nodiscard]] std::uint64_t job_fresh_samples() const noexcept;

  Options options_;
  std::unique_ptr<Communicator> communicator_;
  Parts parts_;
  std::shared_ptr<StopRequest> stop_;  // the feeder's, and of whoever comes in this one's place
  Clock::time_point constructed_;
  std::optional<JobState> resumed_;  // its `left` has moved to the schedule
  SavedState resumed_from_;
  std::optional<JobState> job_;
  Loop loop_at_start_ = Loop::unknown;  // of the feeder in whose place this one comes
  std::optional<ReplayedRun> replayed_;
  std::uint64_t recorded_steps_ = 0;        // of the run that this one repeats, on all its ranks; 0 = it repeats none
  std::shared_ptr<const Dataset> dataset_;  // as the program sees it
  std::shared_ptr<const Dataset> safe_dataset_;  // the same behind its contract
  std::optional<Order> order_;
  std::unique_ptr<Schedule> schedule_;
  std::uint64_t index_bytes_ = 0;  // that the process grew by when it was opened; 0 = not known, or hardly any
  std::unique_ptr<SharedMemory> node_memory_;
  NodePlace node_;
  WorkerPlan workers_;

  std::unique_ptr<ConsoleLog> console_;
  DirectoryLock directory_;
  std::unique_ptr<QuarantineLog> quarantine_;
  Failure failure_;
  std::unique_ptr<RunningClock> running_;
  std::optional<Ranks> ranks_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<SlotStore> store_;
  StreamView stream_;                   // the device's, for trainers that have none
  std::unique_ptr<Timeline> timeline_;  // none = no trace is asked for
  TimelineTrack* trainer_track_ = nullptr;
  TimelineTrack* queues_track_ = nullptr;
  std::unique_ptr<GpuDecoding> gpu_decoding_;  // none = libjpeg-turbo decodes all
  OperationChain operations_;
  std::string operations_notice_;  // they changed transform.when
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<StopRequest::Listener> stop_listener_;
  std::unique_ptr<RuledPolicy> policy_;  // until the server has it
  std::unique_ptr<RunCounters> counters_;
  std::optional<Server> server_;
  std::optional<Saves> saves_;
  std::unique_ptr<Telemetry> telemetry_;  // from the first next() on
  std::unique_ptr<Profiler> profiler_;    // the same

  bool ended_ = false;
  bool was_stopped_ = false;
  bool closed_ = false;
  bool ended_alone_ = false;    // the others may not know
  bool is_in_epoch_ = false;    // in a loop over epochs
  Clock::duration left_in_{0};  // what next() took to say so; the next step's wait counts it
  std::string cause_;           // of the failure that ended the run
  std::string cause_of_leaving_;
  std::exception_ptr refused_;  // by the device, when a batch that was taken was to be handed out

  std::uint64_t completed_ = 0;  // epochs whose batches need not be counted any more
  bool has_warned_of_capped_ = false;
  std::uint32_t last_slot_ = LeaseMaker::kEmpty;
  std::uint64_t last_batch_ = 0;  // of the last step; kept for a trace only
  std::uint64_t last_use_ = 0;
  double startup_s_ = 0;
  Clock::time_point last_return_;
};

}  // namespace forebay

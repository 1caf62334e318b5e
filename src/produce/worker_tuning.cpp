// The tuning thread. Five times a second it reads the counters of all workers, makes a window of
// the differences, shows that to the Tuner and the AskTuner, and has the pools and the ring carry
// out what they decide. It only sets wanted numbers: a pool starts threads or parks them by itself,
// and the ring grows with the consumer's next step, so nothing here touches another thread's state.
// stop() is called before the pools are stopped.

#include "worker_tuning.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/thread.hpp"

namespace forebay::produce {
namespace {

using Activity = WorkerStatus::Activity;
using std::chrono::nanoseconds;

// Chosen: long enough for a few reads of each reader on a fast store, short enough to adapt within
// seconds. A slow store gets a longer window, until each reader has read twice on average.
constexpr auto kShortWindow = std::chrono::milliseconds(200);
// The longest, however few the reads.
constexpr auto kLongWindow = std::chrono::seconds(1);
// Windows without a change, after which people are told.
constexpr unsigned kSettled = 10;

// Readings of several threads are not of one moment: a difference may come out a little below zero.
double seconds(nanoseconds begin, nanoseconds end) noexcept {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

nanoseconds spent(const ActivityTimes& times, Activity activity) noexcept {
  return times[static_cast<std::size_t>(activity)];
}

}  // namespace

WorkerTuning::WorkerTuning(TuningLinks links, const WorkerPlan& plan)
    : links_(std::move(links)),
      tuner_(plan),
      tunes_workers_(plan.tunes()),
      told_(plan.first),
      capacity_(links_.ring.capacity()),
      told_capacity_(capacity_) {
  if (tunes_workers_ || may_grow()) thread_ = start_thread("forebay-tune", [this] { run(); });
}

void WorkerTuning::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The window begins where the last one that counted ended; one that was too short is continued, not
// dropped.
void WorkerTuning::run() {
  measure::Observation begin = links_.observe();
  const auto stopped = [this] { return stopped_.load(std::memory_order_relaxed); };
  while (!wake_.wait_until(WaitPoint::Clock::now() + kShortWindow, stopped)) {
    const measure::Observation end = links_.observe();
    // A slow store wants a longer look.
    const bool few_reads = end.reads - begin.reads < 2ULL * tuner_.counts().io;
    if (few_reads && end.at - begin.at < kLongWindow) continue;
    const WorkerWindow window = between(begin, end);
    if (may_grow() && asks_.look(window, {.io = links_.readers.wanted(), .decode = links_.decoders.wanted()})) {
      asked_ = 2 * links_.ring.capacity();
      links_.ring.want(asked_);
    }
    if (tunes_workers_ && tuner_.look(window)) steer();
    tell_if_settled();
    tell_if_grown();
    begin = end;
  }
}

// The pool may have started fewer threads than asked for. The tuner is told, so that it does not
// judge a trial that never happened; people are told once.
void WorkerTuning::steer() {
  const WorkerCounts wanted = tuner_.counts();
  links_.readers.want(wanted.io);
  links_.decoders.want(wanted.decode);
  const WorkerCounts there{.io = links_.readers.wanted(), .decode = links_.decoders.wanted()};
  if (there == wanted) return;
  tuner_.refused(there);
  if (std::exchange(told_of_refusal_, true)) return;
  links_.tell("workers: the system allows no more threads (ulimit -u, or pids.max of the cgroup); " + describe(there) +
              " work instead of " + describe(wanted));
}

WorkerWindow WorkerTuning::between(const measure::Observation& begin, const measure::Observation& end) {
  const double reader_cpu_s = seconds(begin.reader_cpu, end.reader_cpu);
  const double decoder_cpu_s = seconds(begin.decoder_cpu, end.decoder_cpu);
  const double process_cpu_s = seconds(begin.process_cpu, end.process_cpu);
  const auto in = [](const ActivityTimes& from, const ActivityTimes& to, Activity activity) {
    return seconds(spent(from, activity), spent(to, activity));
  };
  // A read of a decoder is a read, and a part of the decoder's work.
  const double lent_s = in(begin.decoders, end.decoders, Activity::reading);
  return {.seconds = std::chrono::duration<double>(end.at - begin.at).count(),
          .reads = end.reads - begin.reads,
          .decoded = end.samples - begin.samples,
          .reading_s = in(begin.readers, end.readers, Activity::reading),
          .lent_s = lent_s,
          .decoding_s = in(begin.decoders, end.decoders, Activity::decoding) + lent_s,
          .starved_s = in(begin.decoders, end.decoders, Activity::idle),
          .unasked_s = in(begin.readers, end.readers, Activity::idle),
          .decoder_cpu_s = decoder_cpu_s,
          .reader_cpu_s = reader_cpu_s,
          .trainer_cpu_s = std::max(0.0, process_cpu_s - decoder_cpu_s - reader_cpu_s),
          .blocked_s = seconds(begin.blocked, end.blocked)};
}

// Said once per change, ten windows after it: trials that come and go are not worth a line.
void WorkerTuning::tell_if_settled() {
  const WorkerCounts counts = tuner_.counts();
  if (tuner_.settled_for() != kSettled || counts == told_) return;
  told_ = counts;
  links_.tell("workers: " + describe(counts) + " now (" + tuner_.reason() + ")");
}

void WorkerTuning::tell_if_grown() {
  const std::uint32_t capacity = links_.ring.capacity();
  settled_for_ = capacity == capacity_ ? settled_for_ + 1 : 0;
  capacity_ = capacity;
  if (settled_for_ != kSettled || capacity == told_capacity_) return;
  told_capacity_ = capacity;
  links_.tell("queue: " + std::to_string(capacity) + " batches may be ready now, of at most " +
              std::to_string(links_.ring.most_capacity()) +
              (capacity <= asked_ ? " (reads take long, and readers had none to make)"
                                  : " (the trainer lacked batches when they came in bursts)"));
}

}  // namespace forebay::produce

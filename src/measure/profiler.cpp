// Where time goes. A thread looks at the pipeline fifty times a second and adds up how full each
// queue is, weighted by time. What the threads did comes from their own counters at the first and
// the last look. The window ends when the last batch is in flight, because afterwards stages idle
// for lack of work. Any thread may ask for figures at any time.

#include "profiler.hpp"

#include <algorithm>
#include <utility>

#include "base/thread.hpp"
#include "counters.hpp"

namespace forebay::measure {
namespace {

using Activity = WorkerStatus::Activity;

// A choice: often enough to see a queue run dry, and too seldom to be noticed.
constexpr std::chrono::milliseconds kObserveEvery{20};

double in_s(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// The time spent in an activity between two observations.
class Spent {
 public:
  Spent(const ActivityTimes& begin, const ActivityTimes& end) : begin_(begin), end_(end) {}
  [[nodiscard]] double in(Activity activity) const {
    const auto i = static_cast<std::size_t>(activity);
    return std::max(0.0, in_s(end_[i] - begin_[i]));
  }
  // Threads that are parked or stopped do not count.
  [[nodiscard]] double total() const {
    double s = 0;
    for (std::size_t i = 0; i < begin_.size(); ++i) {
      const auto activity = static_cast<Activity>(i);
      if (activity != Activity::parked && activity != Activity::stopped) s += in(activity);
    }
    return s;
  }

 private:
  const ActivityTimes& begin_;
  const ActivityTimes& end_;
};

// Blocked upstream is the remaining time, so that the three shares add up to one.
StageProfile stage_of(double window_s, double total_s, double busy_s, double out_s, std::uint64_t images) {
  StageProfile stage;
  stage.threads = ratio(total_s, window_s);
  stage.busy = ratio(busy_s, total_s);
  stage.blocked_out = ratio(out_s, total_s);
  stage.blocked_in = total_s > 0 ? std::max(0.0, 1 - stage.busy - stage.blocked_out) : 0;
  stage.images_per_s = ratio(static_cast<double>(images), window_s);
  stage.images_per_s_alone = ratio(stage.images_per_s, stage.busy);
  return stage;
}

}  // namespace

void TimeMean::add(double s, double value, double full) noexcept {
  s_ += s;
  sum_ += s * value;
  most_ = std::max(most_, value);
  if (value <= 0) empty_s_ += s;
  const bool is_full = full > 0 && value >= full;
  if (is_full) full_s_ += s;
  if (is_full || least_) least_ = std::min(least_.value_or(value), value);
}

QueueProfile TimeMean::figures() const noexcept {
  return {.mean = ratio(sum_, s_),
          .most = most_,
          .least = least_.value_or(0),
          .empty = ratio(empty_s_, s_),
          .full = ratio(full_s_, s_)};
}

// published >= planned means that nothing more will come.
void ProfileWindow::add(const Observation& now) noexcept {
  if (now.published >= now.planned) return;
  // A choice: requests are for whole samples, so the bound is hardly ever reached exactly.
  constexpr double kNearlyFull = 0.9;
  const double s = in_s(now.at - last_.at);
  encoded_.add(s, static_cast<double>(now.encoded), 0);
  bytes_.add(s, static_cast<double>(now.bytes_in_flight), kNearlyFull * frame_.workers_bytes);
  ring_.add(s, now.depth, now.capacity);
  last_ = now;
}

Profile ProfileWindow::figures() const {
  Profile out;
  const double s = in_s(last_.at - first_.at);
  const std::uint64_t reads = last_.reads - first_.reads;
  const std::uint64_t samples = last_.samples - first_.samples;
  const Spent issuer(first_.issuer, last_.issuer);
  const Spent readers(first_.readers, last_.readers);
  const Spent decoders(first_.decoders, last_.decoders);
  out.window_s = s;
  out.batches = last_.published - first_.published;
  out.order = stage_of(s, issuer.total(), issuer.in(Activity::requesting), issuer.in(Activity::waiting_slot), reads);
  // Readers that hedge or retry are busy: they wait for the store, not for work.
  const double readers_s =
      readers.in(Activity::reading) + readers.in(Activity::hedging) + readers.in(Activity::retrying);
  out.storage = stage_of(s, readers.total(), readers_s, readers.in(Activity::waiting_budget), reads);
  // If reads are quick, decoders do them.
  const double lent_s = decoders.in(Activity::reading);
  const double reading_s = readers_s + lent_s;
  const double decoding_s = decoders.in(Activity::decoding);
  out.storage.images_per_s_alone = ratio(out.storage.threads * static_cast<double>(reads), reading_s);
  out.decode = stage_of(s, decoders.total(), decoding_s + lent_s, 0, samples);
  out.decoder_reads = ratio(lent_s, decoding_s + lent_s);
  out.encoded = encoded_.figures();
  out.bytes = bytes_.figures();
  out.bytes.most = static_cast<double>(last_.most_bytes_in_flight);
  out.ring = ring_.figures();
  out.producer_blocked = ratio(in_s(last_.blocked - first_.blocked), s);
  out.read_ms = 1e3 * ratio(reading_s, static_cast<double>(reads));
  out.decode_ms = 1e3 * ratio(decoding_s, static_cast<double>(samples));
  out.read_mb_s = 1e-6 * ratio(static_cast<double>(last_.bytes_read - first_.bytes_read), s);
  out.decoder_cpu = ratio(in_s(last_.decoder_cpu - first_.decoder_cpu), decoding_s + lent_s);
  out.reader_cores = ratio(in_s(last_.reader_cpu - first_.reader_cpu), s);
  out.process_cores = ratio(in_s(last_.process_cpu - first_.process_cpu), s);
  out.shrinkable = ratio(static_cast<double>(last_.shrinkable - first_.shrinkable), static_cast<double>(samples));
  out.own_jpeg = ratio(static_cast<double>(last_.own_jpeg - first_.own_jpeg), static_cast<double>(samples));
  out.indexed_jpeg = ratio(static_cast<double>(last_.indexed_jpeg - first_.indexed_jpeg), static_cast<double>(samples));
  out.cores = frame_.cores;
  out.decode_fixed = frame_.decode_fixed ? 1 : 0;
  out.batch_size = frame_.batch_size;
  out.batch_bytes = frame_.batch_bytes;
  out.queue_capacity = last_.capacity;
  out.workers_bytes = frame_.workers_bytes;
  return out;
}

Profiler::Profiler(const ProfileFrame& frame, std::function<Observation()> observe, TimelineTrack* track)
    : observe_(std::move(observe)), track_(track), window_(frame, observe_()) {
  thread_ = start_thread<std::jthread>("forebay-profile", [this](const std::stop_token& stop) { run(stop); });
}

void Profiler::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  stopping_.notify_all();
  thread_.join();
}

Profile Profiler::profile() const {
  const std::lock_guard lock(mutex_);
  return window_.figures();
}

void Profiler::run(const std::stop_token& stop) {
  bool last = false;
  while (!last) {
    last = stopping_.wait_until(WaitPoint::Clock::now() + kObserveEvery, [&] { return stop.stop_requested(); });
    observe_once();
  }
}

void Profiler::observe_once() {
  const Observation now = observe_();
  if (track_ != nullptr) {
    const std::int64_t at_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.at.time_since_epoch()).count();
    track_->add_counter("encoded samples", at_ns, now.encoded);
    track_->add_counter("bytes in flight", at_ns, now.bytes_in_flight);
  }
  const std::lock_guard lock(mutex_);
  window_.add(now);
}

}  // namespace forebay::measure

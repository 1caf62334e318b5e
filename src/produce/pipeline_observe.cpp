// The observable state of a running pipeline: a line for the watchdog and for slow shutdowns
// (report), figures for the telemetry and the tuning (observe), and the tracks of the timeline
// (note_in). Called on other threads while the workers run, so everything is read from atomics,
// without a common moment: sums may be off by what happened in between.

#include <array>
#include <cstddef>
#include <string>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "measure/timeline_file.hpp"
#include "pipeline.hpp"

namespace forebay::produce {
namespace {

using Activity = WorkerStatus::Activity;

// In the order of WorkerStatus::Activity.
constexpr std::array<std::string_view, WorkerStatus::kActivities> kWords{"waiting for work",
                                                                         "waiting for room in workers.bytes",
                                                                         "reading from the store",
                                                                         "reading what another is slow with",
                                                                         "waiting to read again",
                                                                         "decoding a sample",
                                                                         "asking for samples",
                                                                         "waiting for room in the ring",
                                                                         "waiting for the device to copy a batch",
                                                                         "not needed now",
                                                                         "stopped"};

bool has_sample(Activity activity) {
  return activity == Activity::reading || activity == Activity::hedging || activity == Activity::retrying ||
         activity == Activity::decoding || activity == Activity::waiting_budget;
}

// The threads that Workers::busy omits: one that does nothing cannot delay a shutdown.
bool is_rest(Activity activity) {
  return activity == Activity::idle || activity == Activity::parked || activity == Activity::stopped;
}

// Puts into words what worker threads are doing: threads of one kind that do the same are counted together, with
// the one that has done it longest as the example.
class WorkerReport {
 public:
  WorkerReport(const Dataset& dataset, Workers which) : dataset_(dataset), which_(which) {}

  void add(std::string_view kind, std::span<const WorkerStatus> statuses);
  // "8 readers in the store (longest 4.2 s: data/a.jpg); 1 decoder waiting for work".
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  const Dataset& dataset_;
  const Workers which_;
  std::string text_;
};

// A status is three atomics that its thread stores one after the other, so activity and sample may
// belong to two moments: the sample is compared with the dataset's size before it is named.
void WorkerReport::add(std::string_view kind, std::span<const WorkerStatus> statuses) {
  const std::int64_t now = steady_ns();
  for (std::size_t activity = 0; activity < kWords.size(); ++activity) {
    if (which_ == Workers::busy && is_rest(static_cast<Activity>(activity))) continue;
    std::size_t count = 0;
    std::int64_t longest_ns = -1;
    std::uint64_t sample = 0;
    for (const WorkerStatus& status : statuses) {
      if (status.activity.load(std::memory_order_relaxed) != static_cast<Activity>(activity)) continue;
      const std::int64_t since = status.since_ns.load(std::memory_order_relaxed);
      if (since == 0) continue;  // never started
      ++count;
      const std::int64_t ns = now - since;
      if (ns <= longest_ns) continue;
      longest_ns = ns;
      sample = status.sample.load(std::memory_order_relaxed);
    }
    if (count == 0) continue;
    if (!text_.empty()) text_ += "; ";
    text_ += counted(count, kind) + " " + std::string(kWords[activity]) + " (longest " +
             in_seconds(static_cast<double>(longest_ns) * 1e-9);
    if (has_sample(static_cast<Activity>(activity)) && sample < dataset_.size()) text_ += ": " + dataset_.name(sample);
    text_ += ")";
  }
}

}  // namespace

measure::Observation Pipeline::observe() const {
  measure::Observation now;
  now.issuer = times_spent({&issuer_status_, 1});
  now.readers = times_spent(readers_.workers().statuses());
  now.decoders = times_spent(decoders_.workers().statuses());
  now.decoder_cpu = decoders_.workers().cpu_time();
  now.reader_cpu = readers_.workers().cpu_time();
  now.process_cpu = process_cpu_spent();
  now.at = std::chrono::steady_clock::now();
  now.blocked = ring_.blocked();
  now.reads = totals_.reads.load(std::memory_order_relaxed);
  now.bytes_read = totals_.bytes_read.load(std::memory_order_relaxed);
  now.samples = totals_.samples.load(std::memory_order_relaxed);
  now.shrinkable = totals_.shrinkable.load(std::memory_order_relaxed);
  now.own_jpeg = totals_.own_jpeg.load(std::memory_order_relaxed);
  now.indexed_jpeg = totals_.indexed_jpeg.load(std::memory_order_relaxed);
  now.published = ring_.published();
  now.planned = ring_.planned();
  now.depth = ring_.depth_guess();
  now.capacity = ring_.capacity();
  now.encoded = encoded_.size_guess();
  now.bytes_in_flight = budget_.in_flight();
  now.most_bytes_in_flight = budget_.most_in_flight();
  return now;
}

void Pipeline::note_in(measure::Timeline& timeline) {
  const auto note = [&](WorkerStatus& status, const std::string& name) {
    // Release: set() of its thread loads with acquire.
    status.timeline.store(&timeline.track(name), std::memory_order_release);
  };
  note(issuer_status_, "issuer");
  const auto note_all = [&](WorkerPool& pool, const std::string& kind) {
    int number = 0;
    for (WorkerStatus& status : pool.statuses()) note(status, kind + " " + std::to_string(number++));
  };
  note_all(readers_.workers(), "reader");
  note_all(decoders_.workers(), "decoder");
  if (uploader_) note(uploader_->status(), "uploader");
}

std::string Pipeline::report(Workers which) const {
  WorkerReport report(links_.dataset, which);
  report.add("issuer", {&issuer_status_, 1});
  report.add("reader", readers_.workers().statuses());
  report.add("decoder", decoders_.workers().statuses());
  if (uploader_) report.add("uploader", {&uploader_->status(), 1});
  const std::string failing = outage_.report();
  return report.text() + (failing.empty() ? "" : "; " + failing);
}

}  // namespace forebay::produce

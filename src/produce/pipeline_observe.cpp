#include "measure/profiler.hpp"

#include <algorithm>

#include "measure/timeline_file.hpp"
#include "pipeline.hpp"

namespace forebay {

Observation Pipeline::observe() const {
  Observation now;
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
  now.published = ring_.published();
  now.planned = ring_.planned();
  now.depth = ring_.depth_guess();
  now.encoded = encoded_.size_guess();
  now.bytes_in_flight = budget_.in_flight();
  now.most_bytes_in_flight = budget_.most_in_flight();
  return now;
}

void Pipeline::note_in(Timeline& timeline) {
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

}  // namespace forebay

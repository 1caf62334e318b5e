// What a run tells of itself beside its summary: where the time goes, and the trace.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "feeder_impl.hpp"
#include "job/available_memory.hpp"

namespace forebay {
namespace {

std::int64_t ns_of(SlotRing::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// "900 of 1000 samples"
std::string samples_text(std::uint64_t of_dataset, const OrderOptions& order) {
  const std::string all = std::to_string(of_dataset) + " samples";
  return order.selection ? std::to_string(order.samples) + " of " + all : all;
}

std::string operations_text(const std::vector<std::string>& operations) {
  std::string text;
  for (const std::string& name : operations) text += (text.empty() ? "; operations " : ", ") + printable(name);
  return text;
}

}  // namespace

void Feeder::Impl::start_timeline() {
  if (parts_.trace.empty()) return;
  timeline_ = std::make_unique<Timeline>(parts_.trace, parts_.trace_s, communicator_->rank(), communicator_->size());
  trainer_track_ = &timeline_->track("trainer");
  queues_track_ = &timeline_->track("queues");
  pipeline_->note_in(*timeline_);
}

void Feeder::Impl::start_profiler() {
  const ProfileFrame frame{.batch_size = static_cast<double>(options_.dataset.batch_size),
                           .batch_bytes = static_cast<double>(store_->format().resident_bytes()),
                           .queue_capacity = static_cast<double>(options_.queue.capacity),
                           .workers_bytes = static_cast<double>(options_.workers.bytes),
                           .cores = static_cast<double>(workers_.cores),
                           .decode_fixed = options_.workers.decode != 0};
  profiler_ = std::make_unique<Profiler>(
      frame, [this] { return pipeline_->observe(); }, queues_track_);
}

Profile Feeder::Impl::profile() const {
  Profile out;
  if (!profiler_) return out;
  out = profiler_->profile();
  const Summary run = summary();
  const double others = run.wall_s > 0 ? run.census_wait_s / run.wall_s : 0;
  out.trainer.threads = 1;
  out.trainer.busy = run.au;
  out.trainer.blocked_out = others;
  out.trainer.blocked_in = run.wall_s > 0 ? std::max(0.0, 1 - run.au - others) : 0;
  out.trainer.images_per_s = run.images_per_s;
  out.trainer.images_per_s_alone = run.consume_rate * out.batch_size;
  out.fresh_fraction = run.fresh_fraction;
  return out;
}

void Feeder::Impl::trace_step(const StepRecord& step, Clock::time_point entered, Clock::time_point now) noexcept {
  TimelineTrack& track = *trainer_track_;
  if (steps_made() > 1)
    track.add_step("step", ns_of(last_return_), ns_of(entered), step.step - 1, last_batch_, last_use_);
  const char* const name = step.padding ? "next: padding" : step.use_index == 0 ? "next: fresh" : "next: reuse";
  track.add_step(name, ns_of(entered), ns_of(now), step.step, step.batch, step.use_index);
  track.add_counter("ring depth", ns_of(entered), step.depth);
  last_batch_ = step.batch;
  last_use_ = step.use_index;
}

void Feeder::Impl::write_trace() noexcept {
  if (!timeline_) return;
  try {
    console_->info(timeline_->write());
  } catch (const std::exception& error) {
    console_->warn(printable(error.what()));
  }
}

std::string Feeder::Impl::describe() const {
  const QueueOptions& queue = options_.queue;
  const auto encoded = static_cast<std::uint64_t>(options_.workers.bytes);
  std::string text = samples_text(dataset_->size(), order_->options()) + ", " + std::to_string(order_->batches()) +
                     " batches per epoch; ring of " + std::to_string(store_->size()) + " slots (" +
                     std::to_string(queue.capacity) + " ready, " + std::to_string(queue.pool) + " resident, " +
                     std::to_string(queue.max_leases - 1) + " leased) in " + store_->describe() + "; " +
                     forebay::describe(workers_) + (pipeline_->hedges() ? ", slow reads begun twice" : "");
  const SlotMemory& memory = store_->memory();
  const std::uint64_t batches = memory.slots + memory.outputs;
  if (!device_->is_host()) text += "; " + mebibytes(batches) + " on " + device_->describe();
  const std::uint64_t on_host = device_->is_host() ? batches : memory.staging;
  text += "; memory up to " + mebibytes(on_host + encoded + index_bytes_) + ": " +
          (device_->is_host() ? "ring " : "staging ") + mebibytes(on_host) + ", encoded bytes " + mebibytes(encoded);
  if (index_bytes_ > 0) text += ", index " + mebibytes(index_bytes_);
  return text + ", and for each decoder 3 bytes per pixel of the largest image" +
         operations_text(options_.transform.operations) + "; policy " + options_.policy.name;
}

}  // namespace forebay

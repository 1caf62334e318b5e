// What a run tells of itself: its figures, the line at its start, and what it says at its end of samples that were bad
// and of a recording that is over. On the trainer's thread; gauges() also on the telemetry thread.

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "job/start_checks.hpp"
#include "make/image_decoder.hpp"
#include "run.hpp"

namespace forebay::feeder {
namespace {

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

measure::Gauges Run::gauges() const {
  const ring::SlotRing& ring = pipeline->ring();
  return {.depth = ring.depth_guess(),
          .capacity = ring.capacity(),
          .produced = ring.published(),
          .blocked_s = seconds(ring.blocked()),
          .bad_samples = quarantine->count() - bad_elsewhere};
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
  const std::uint64_t of_index = options.run.eval && communicator->rank() == 0 ? bad_in_index() : 0;
  return journal->summary({.startup_s = startup_s,
                           .blocked_s = gauges().blocked_s,
                           .queue_capacity = pipeline->ring().capacity(),
                           .max_uses = options.run.eval ? 0 : server->max_uses(),
                           .bad_samples = ranks->bad_samples(),
                           .bad_share = static_cast<double>(ranks->bad_samples()) / static_cast<double>(entries()),
                           .left_out = server->counts().left_out + of_index,
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
  if (!device->is_host()) text += "; " + mebibytes(batches) + " on " + device->describe();
  const std::uint64_t on_host = device->is_host() ? batches : memory.staging;
  text += "; memory up to " + mebibytes(on_host + encoded + index_bytes) + ": " +
          (device->is_host() ? "ring " : "staging ") + mebibytes(on_host) +
          (to_come > 0 ? " (" + mebibytes(on_host - to_come) + " at first)" : "") + ", encoded bytes " +
          mebibytes(encoded);
  if (index_bytes > 0) text += ", index " + mebibytes(index_bytes);
  return text + ", and for each decoder " + decoder_text(options.dataset.clip) + wide_text(dataset->fields()) +
         operations_text(options.transform.operations) + views_text(store->format().views) +
         clips_text(options.dataset.clip) + "; policy " + options.policy.name;
}

void Run::say_what_was_left_out() {
  const bool is_alone = communicator->size() == 1;
  const std::uint64_t samples = server->counts().fresh_samples;
  const std::uint64_t met = server->counts().left_out;
  const bool is_whole = is_alone && options.run.eval && samples + met == order->options().samples;
  const std::uint64_t of_index = is_whole ? bad_in_index() : 0;
  const std::uint64_t left_out = met + of_index;
  if (left_out == 0) return;
  console->warn((is_alone ? "evaluated " : "this rank evaluated ") + std::to_string(samples) + " of " +
                std::to_string(samples + left_out) + " samples; " + std::to_string(left_out) + " left out because " +
                (left_out == 1 ? "it is bad" : "they are bad") +
                (of_index == 0 ? "" : ", " + std::to_string(of_index) + " of them by the index") +
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
                (dir.empty() ? "" : "; their names are in " + printable(dir) + "/quarantine.*.jsonl"));
}

// Nobody knows in which part of a split those would be that the index left out. At least one: max_bad = 0 allows none.
std::uint64_t Run::bad_in_index() const noexcept {
  const std::uint64_t all = ranks::bad_entries(*dataset);
  const std::uint64_t samples = order->options().samples;
  if (samples >= dataset->size() || all == 0) return all;
  const double share = static_cast<double>(samples) / static_cast<double>(dataset->size());
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(share * static_cast<double>(all))));
}

std::string Run::first_bad_in_index() const {
  const auto& skipped = safe_dataset->skipped();
  const auto first = std::ranges::find_if(skipped, &Skipped::bad);
  return first == skipped.end() ? "" : printable(first->path) + ": " + printable(first->reason);
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

// The tables of all figures: the key in JSON, the unit, the meaning, how a job's value follows from
// its ranks', and the words for people. JSON, combining, texts, Prometheus and docs/telemetry.md
// all come from here, so a figure is added in one place (CONTRIBUTING.md, "Adding a figure"). The
// tables are in the order of the files. Meanings are Markdown, as the page shows them.

#include "figures.hpp"

#include <algorithm>
#include <array>

namespace forebay::measure {
namespace {

// Phrases of a line of text; the function's name says how the number is shown.
constexpr Phrase text(std::string_view line, std::string_view format) { return {.line = line, .format = format}; }
constexpr Phrase percent(std::string_view line, std::string_view format) {
  return {.line = line, .format = format, .scale = 100};
}
constexpr Phrase percent_if_any(std::string_view line, std::string_view format) {
  return {.line = line, .format = format, .scale = 100, .if_any = true};
}
constexpr Phrase millions(std::string_view line, std::string_view format) {
  return {.line = line, .format = format, .scale = 1e-6};
}
constexpr Phrase if_any(std::string_view line, std::string_view format) {
  return {.line = line, .format = format, .if_any = true};
}

// Marks a figure as a count: intervals add up.
constexpr Figure<Interval> count(Figure<Interval> figure) {
  figure.is_count = true;
  return figure;
}

constexpr auto kStep = std::to_array<Figure<StepRecord>>({
    {"step", &StepRecord::step, "", "of this rank, from 0"},
    {"t_s", &StepRecord::t_s, "s", "when the batch was handed over"},
    {"epoch", &StepRecord::epoch, "", "of the batch"},
    {"batch", &StepRecord::batch, "", "its number in the epoch"},
    {"use_index", &StepRecord::use_index, "", "0 = fresh, then 1, 2, ..."},
    {"decision", &StepRecord::served, "", "`fresh` or `reuse`"},
    {"depth", &StepRecord::depth, "batches", "ready when `next()` was called"},
    {"size", &StepRecord::size, "samples", "in the batch"},
    {"wait_s", &StepRecord::wait_s, "s", "inside `next()`; on the first line the wait for the first batch"},
    {"census_wait_s", &StepRecord::census_wait_s, "s", "part of `wait_s`: until the census of the ranks was complete"},
    {"step_s", &StepRecord::step_s, "s",
     "between the previous return of `next()` and this call: the trainer's compute; 0 on the first line"},
    {"ahead_s", &StepRecord::ahead_s, "s",
     "part of `step_s`: inside `next()` until the GPU was at most `queue.run_ahead` steps behind"},
    {"padding", &StepRecord::padding, "", "served only so that all ranks make equally many steps"},
    {"adjacent", &StepRecord::adjacent, "", "the same batch as the step before"},
    {"exhausted", &StepRecord::exhausted, "", "no batch was ready"},
    {"produced", &StepRecord::produced, "batches", "made ready since the start"},
    {"blocked_producer_s", &StepRecord::blocked_s, "s", "producer blocked by a full queue, since the start"},
});

constexpr auto kInterval = std::to_array<Figure<Interval>>({
    {"t_s", &Interval::t_s, "s", "end of the interval"},
    {"interval_s", &Interval::interval_s, "s", "its length; the last is usually shorter"},
    {"step_num", &Interval::step_num, "", "of the last step"},
    {"epoch", &Interval::epoch, "", "of the last batch"},
    {"queue_size", &Interval::queue_size, "batches", "ready at the end"},
    {"capacity", &Interval::capacity, "batches", "`queue.capacity` at the end"},
    {"mean_enqueue_rate", &Interval::mean_enqueue_rate, "batches/s", "made ready"},
    {"mean_dequeue_rate", &Interval::mean_dequeue_rate, "batches/s", "taken out of the queue: fresh steps"},
    {"mean_running_time", &Interval::mean_running_time, "s", "per step, waiting included"},
    count({"steps", &Interval::steps, "steps", "served"}),
    count({"fresh", &Interval::fresh, "steps", "that took a new batch"}),
    count({"reused", &Interval::reused, "steps", "that reused a batch"}),
    {"fresh_fraction", &Interval::fresh_fraction, "", "`fresh / steps`", OfRanks::none,
     percent("interval", "  fresh {:.1f} %")},
    count({"exhausted_steps", &Interval::exhausted_steps, "steps", "that found the queue empty"}),
    {"lambda", &Interval::lambda, "batches/s",
     "the producer's unimpeded rate: batches made ready / (`interval_s` - `blocked_producer_s`)", OfRanks::none,
     text("interval", "  lambda {:.1f}/s")},
    {"mu", &Interval::mu, "steps/s", "the trainer's rate without waiting: steps / its compute time", OfRanks::none,
     text("interval", "  mu {:.1f}/s")},
    {"R", &Interval::r, "", "`mu / lambda`; above 1 the queue must run dry", OfRanks::none,
     text("interval", "  R {:.2f}")},
    {"stall", &Interval::stall, "", "share of the steps' time inside `next()`", OfRanks::none,
     percent("interval", "  stall {:.1f} %")},
    count({"census_waits", &Interval::census_waits, "steps", "whose census of the ranks was not complete at once"}),
    count({"census_wait_s", &Interval::census_wait_s, "s", "waiting for it; part of `stall`"}),
    count({"job_fresh_samples", &Interval::job_fresh_samples, "samples",
           "served fresh by all ranks since the run began, with several as of `mpi.lag` steps ago"}),
    {"job_uses_max", &Interval::job_uses_max, "serves",
     "the most uses of one batch on any rank, by the interval's censuses"},
    {"images_per_s", &Interval::images_per_s, "samples/s", "fresh samples served", OfRanks::none,
     text("interval", "  {:.0f} images/s")},
    count({"blocked_producer_s", &Interval::blocked_producer_s, "s", "producer blocked by a full queue"}),
    count({"bytes_read", &Interval::bytes_read, "bytes", "encoded bytes read from the dataset"}),
    count({"bytes_from_store", &Interval::bytes_from_store, "bytes",
           "of samples, from a store or a slow mount that is kept in `cache.dir`"}),
    count({"bytes_from_cache", &Interval::bytes_from_cache, "bytes", "that `cache.dir` had"}),
    {"cache_share", &Interval::cache_share, "", "`bytes_from_cache / (bytes_from_cache + bytes_from_store)`",
     OfRanks::none, percent_if_any("interval", "  cache {:.1f} %")},
    count({"retries", &Interval::retries, "reads", "retried after a transient error"}),
    count({"hedged_reads", &Interval::hedged_reads, "reads", "issued a second time (`workers.hedge`)"}),
    count({"read_s", &Interval::read_s, "s", "summed over all threads that read"}),
    count({"decode_s", &Interval::decode_s, "s", "summed over the decoder threads"}),
    count({"bad_samples", &Interval::bad_samples, "samples",
           "of this rank since the start; rank 0 counts those of the index", OfRanks::none,
           if_any("interval", "  bad {:.0f}")}),
    count({"dropped_records", &Interval::dropped_records, "records", "lost by telemetry since the start", OfRanks::none,
           if_any("interval", "  dropped {:.0f}")}),
});

// The order is that of the JSON and of the text, so the phrases of one line are adjacent. Formulas
// follow the figures that they use.
constexpr auto kSummary = std::to_array<Figure<Summary>>({
    {"steps", &Summary::steps, "steps", "served", OfRanks::sum, text("steps", "{:.0f}")},
    {"fresh", &Summary::fresh, "steps", "that took a new batch", OfRanks::sum, text("steps", ": {:.0f} fresh")},
    {"fresh_fraction", &Summary::fresh_fraction, "", "`fresh / steps`",
     [](const Summary& s) { return ratio(as_double(s.fresh), as_double(s.steps)); }, percent("steps", " ({:.1f} %)")},
    {"reused", &Summary::reused, "steps", "that served a batch again", OfRanks::sum, text("steps", ", {:.0f} reused")},
    {"epochs", &Summary::epochs, "epochs", "completed by all ranks", OfRanks::least,
     text("steps", "; {:.0f} epoch[s] complete")},
    {"startup_s", &Summary::startup_s, "s", "construction until the first batch", OfRanks::mean},
    {"wall_s", &Summary::wall_s, "s", "`compute_s + stall_s`: from the first batch until the last call of `next()`",
     OfRanks::mean},
    {"compute_s", &Summary::compute_s, "s", "between the return of `next()` and the next call, `ahead_s` included",
     OfRanks::mean},
    {"au", &Summary::au, "", "accelerator utilisation: `compute_s / wall_s`",
     [](const Summary& s) { return ratio(s.compute_s, s.wall_s); }, percent("time", "AU {:.1f} %")},
    {"fresh_au", &Summary::fresh_au, "", "`au * fresh_fraction`",
     [](const Summary& s) { return s.au * s.fresh_fraction; }, percent("time", ", fresh AU {:.1f} %")},
    {"stall_s", &Summary::stall_s, "s", "inside `next()`, without the first call and `ahead_s`", OfRanks::mean,
     text("time", ", stall {:.3f} s")},
    {"census_wait_s", &Summary::census_wait_s, "s", "part of `stall_s`: until the census of the ranks was complete",
     OfRanks::mean, if_any("time", ", {:.3f} s of it for other ranks")},
    {"census_waits", &Summary::census_waits, "steps", "whose census was not complete at once, without the first step",
     OfRanks::sum},
    {"ahead_s", &Summary::ahead_s, "s",
     "part of `compute_s` inside `next()` until the GPU was at most `queue.run_ahead` steps behind", OfRanks::mean},
    {"produce_rate", &Summary::produce_rate, "batches/s", "lambda: the producer's unimpeded rate", OfRanks::sum,
     text("rates", "lambda {:.2f} batches/s")},
    {"consume_rate", &Summary::consume_rate, "steps/s", "mu: the trainer's rate without waiting, steps / `compute_s`",
     OfRanks::mean, text("rates", ", mu {:.2f} steps/s")},
    {"images_per_s", &Summary::images_per_s, "samples/s", "fresh samples served / `wall_s`", OfRanks::sum,
     text("rates", "; {:.0f} fresh images/s")},
    {"exhausted_steps", &Summary::exhausted_steps, "steps", "that found the queue empty", OfRanks::sum,
     text("queue", "exhausted at {:.0f} step[s]")},
    {"uses_p50", &Summary::uses_p50, "serves", "of a batch: the median, resident batches included", OfRanks::most,
     text("queue", "; uses per batch p50 {:.0f}")},
    {"uses_p99", &Summary::uses_p99, "serves", "their 99th percentile", OfRanks::most, text("queue", ", p99 {:.0f}")},
    {"uses_max", &Summary::uses_max, "serves", "their maximum", OfRanks::most, text("queue", ", most {:.0f}")},
    {"max_uses", &Summary::max_uses, "serves", "`policy.max_uses` at the end; 0 = no cap, or too few steps to find one",
     OfRanks::most, if_any("queue", ", cap {:.0f} at the end")},
    {"adjacent_reuse_fraction", &Summary::adjacent_reuse_fraction, "", "steps that repeat the last batch / `steps`",
     OfRanks::mean_over_steps, percent("queue", "; {:.1f} % of steps repeat the last batch")},
    {"blocked_s", &Summary::blocked_s, "s", "producer blocked by a full queue", OfRanks::mean},
    {"queue_capacity", &Summary::queue_capacity, "batches", "`queue.capacity` at the end", OfRanks::most},
    {"bytes_read", &Summary::bytes_read, "bytes", "encoded bytes read from the dataset", OfRanks::sum,
     millions("data", "{:.1f} MB read")},
    {"bytes_from_cache", &Summary::bytes_from_cache, "bytes", "that `cache.dir` had", OfRanks::sum},
    {"bytes_from_store",
     &Summary::bytes_from_store,
     "bytes",
     "of samples, from a store or a slow mount that is kept in `cache.dir`; with a cache in whole blocks of 4 KiB",
     OfRanks::sum,
     {.line = "data", .format = ", {:.1f} MB from the store", .scale = 1e-6, .if_any = true}},
    {"cache_share", &Summary::cache_share, "", "`bytes_from_cache / (bytes_from_cache + bytes_from_store)`",
     [](const Summary& s) {
       return ratio(as_double(s.bytes_from_cache), as_double(s.bytes_from_cache) + as_double(s.bytes_from_store));
     },
     percent_if_any("data", ", {:.1f} % from the cache")},
    {"cache_bound", &Summary::cache_bound, "",
     "what a later epoch can have from the cache: `cache_held` / the room that the node's epoch takes there",
     OfRanks::mean, percent_if_any("data", " (of an epoch at most {:.1f} %)")},
    {"cache_held",
     &Summary::cache_held,
     "bytes",
     "in the cache at the end, other data included",
     OfRanks::most,
     {.line = "data", .format = ", which holds {:.1f} MB", .scale = 1e-6, .if_any = true}},
    {"bad_samples", &Summary::bad_samples, "samples", "distinct ones in the whole job, including those of the index",
     OfRanks::most, text("data", ", {:.0f} bad sample[s]")},
    {"bad_share",
     &Summary::bad_share,
     "",
     "`bad_samples` / all samples, including those of the index",
     OfRanks::most,
     {.line = "data", .format = " ({:.2f} %)", .scale = 100, .if_any = true}},
    {"left_out", &Summary::left_out, "samples", "bad ones that an evaluation left out", OfRanks::sum,
     if_any("data", " ({:.0f} left out)")},
    {"hedged_reads", &Summary::hedged_reads, "reads", "issued a second time (`workers.hedge`)", OfRanks::sum,
     if_any("data", ", {:.0f} slow read[s] begun twice")},
    {"hedges_won", &Summary::hedges_won, "reads", "begun twice whose second read was faster", OfRanks::sum,
     if_any("data", " ({:.0f} won)")},
    {"nvjpeg_samples", &Summary::nvjpeg_samples, "samples", "decoded by nvJPEG", OfRanks::sum,
     if_any("decoding", "{:.0f} sample[s] by nvJPEG")},
    {"nvjpeg_fallbacks", &Summary::nvjpeg_fallbacks, "samples", "that nvJPEG left to the CPU, including bad samples",
     OfRanks::sum, if_any("decoding", ", {:.0f} by libjpeg-turbo instead")},
    {"dropped_records", &Summary::dropped_records, "records", "lost by telemetry", OfRanks::sum,
     if_any("telemetry", "{:.0f} record[s] dropped")},
});

constexpr auto kProfile = std::to_array<Figure<Profile>>({
    {"ranks", &Profile::ranks, "", "that these figures cover", OfRanks::sum},
    {"batches", &Profile::batches, "batches", "made ready in the window", OfRanks::sum},
    {"window_s", &Profile::window_s, "s", "from the first `next()` until the last batch was in flight", OfRanks::mean},
    {"producer_blocked", &Profile::producer_blocked, "", "share of the time in which a full ring blocked the producer",
     OfRanks::mean},
    {"read_ms", &Profile::read_ms, "ms", "mean time of a read", OfRanks::mean},
    {"decode_ms", &Profile::decode_ms, "ms", "mean time of a sample from encoded bytes to its place in the ring",
     OfRanks::mean},
    {"read_mb_s", &Profile::read_mb_s, "MB/s", "encoded bytes read", OfRanks::sum},
    {"decoder_cpu", &Profile::decoder_cpu, "",
     "processor time / busy time of the decoders; well below 1: they share cores with others", OfRanks::mean},
    {"decoder_reads", &Profile::decoder_reads, "", "share of the decoders' busy time spent on quick reads",
     OfRanks::mean},
    {"reader_cores", &Profile::reader_cores, "cores", "processor time per second of the readers", OfRanks::mean},
    {"process_cores", &Profile::process_cores, "cores",
     "processor time per second of all threads of the process; 0 = not known", OfRanks::mean},
    {"shrinkable", &Profile::shrinkable, "",
     "share of the samples that only `transform.decode = \"scaled\"` would decode at reduced size", OfRanks::mean},
    {"own_jpeg", &Profile::own_jpeg, "",
     "share of the samples whose JPEG Forebay decoded itself (`workers.jpeg = \"own\"`)", OfRanks::mean},
    {"indexed_jpeg", &Profile::indexed_jpeg, "",
     "share of the samples whose JPEG was decoded by a [decode index](data.md#decode-index)", OfRanks::mean},
    {"fresh_fraction", &Profile::fresh_fraction, "", "of the trainer's steps", OfRanks::mean},
    {"cores", &Profile::cores, "cores", "that this rank may use; an equal share if ranks share them", OfRanks::mean},
    {"decode_fixed", &Profile::decode_fixed, "", "1 if `workers.decode` is a number", OfRanks::mean},
    {"batch_size", &Profile::batch_size, "samples", "`dataset.batch_size`", OfRanks::mean},
    {"batch_bytes", &Profile::batch_bytes, "bytes", "memory of a batch in the queue", OfRanks::mean},
    {"queue_capacity", &Profile::queue_capacity, "batches", "`queue.capacity` at the end", OfRanks::mean},
    {"workers_bytes", &Profile::workers_bytes, "bytes", "`workers.bytes`", OfRanks::mean},
});

constexpr auto kStage = std::to_array<Figure<StageProfile>>({
    {"threads", &StageProfile::threads, "threads", "working or waiting, on average", OfRanks::mean},
    {"busy", &StageProfile::busy, "", "share of their time at work", OfRanks::mean},
    {"blocked_in", &StageProfile::blocked_in, "", "share waiting for work; the trainer: in next()", OfRanks::mean},
    {"blocked_out", &StageProfile::blocked_out, "", "share waiting for room downstream; the trainer: for other ranks",
     OfRanks::mean},
    {"images_per_s", &StageProfile::images_per_s, "samples/s", "done", OfRanks::sum},
    {"images_per_s_alone", &StageProfile::images_per_s_alone, "samples/s",
     "could be done without waiting; the trainer: with fresh batches only. 0 = not known", OfRanks::sum},
});

constexpr auto kQueue = std::to_array<Figure<QueueProfile>>({
    {"mean", &QueueProfile::mean, "", "over time", OfRanks::mean},
    {"most", &QueueProfile::most, "", "over time", OfRanks::mean},
    {"least", &QueueProfile::least, "", "since it was first full; 0 if it never was", OfRanks::least},
    {"empty", &QueueProfile::empty, "", "share of the time", OfRanks::mean},
    {"full", &QueueProfile::full, "", "share of the time: at `queue.capacity`, above nine tenths of `workers.bytes`",
     OfRanks::mean},
});

template <typename Table>
constexpr bool all_combine(const Table& table) {
  return std::ranges::all_of(table, [](const auto& figure) {
    const auto* const rule = std::get_if<OfRanks>(&figure.job);
    return rule == nullptr || *rule != OfRanks::none;
  });
}
static_assert(all_combine(kSummary) && all_combine(kProfile) && all_combine(kStage) && all_combine(kQueue));

constexpr auto kStages = std::to_array<ProfilePart<StageProfile>>({
    {"stages", "order", &Profile::order, "", "the issuer thread"},
    {"stages", "storage", &Profile::storage, "", "reader threads; images include those that decoders read"},
    {"stages", "decode", &Profile::decode, "", "decoder threads"},
    {"stages", "trainer", &Profile::trainer, "", "the trainer's thread"},
});

constexpr auto kQueues = std::to_array<ProfilePart<QueueProfile>>({
    {"queues", "encoded", &Profile::encoded, "samples", "waiting for a decoder"},
    {"queues", "bytes", &Profile::bytes, "bytes",
     "encoded bytes in flight; `most` is exact and never above `workers.bytes`, except for a single larger sample"},
    {"queues", "ring", &Profile::ring, "batches", "ready"},
});

}  // namespace

Figures<StepRecord> step_figures() noexcept { return kStep; }
Figures<Interval> interval_figures() noexcept { return kInterval; }
Figures<Summary> summary_figures() noexcept { return kSummary; }
Figures<Profile> profile_figures() noexcept { return kProfile; }
Figures<StageProfile> stage_figures() noexcept { return kStage; }
Figures<QueueProfile> queue_figures() noexcept { return kQueue; }

std::span<const ProfilePart<StageProfile>> profile_stages() noexcept { return kStages; }
std::span<const ProfilePart<QueueProfile>> profile_queues() noexcept { return kQueues; }

}  // namespace forebay::measure

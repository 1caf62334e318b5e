// From a profile to a sentence: what limits the run, and what to change. judge() tries these cases
// in order: too short to say; a full ring held the producer up, so the trainer is the limit;
// nothing suffers; decoders and readers both at their limit; decoders; all cores in use; otherwise
// storage. A function for each case writes its advice, with numbers of this run and the keys to
// set. Pure functions of a Profile, for any thread.
//
// The thresholds are choices.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include <forebay/profile.hpp>

#include <spdlog/fmt/fmt.h>

namespace forebay {
namespace {

// A profile shorter than this says nothing.
constexpr double kShortestWindow_s = 0.5;
constexpr std::uint64_t kFewestBatches = 4;
// After this long, even a ring that never filled says enough.
constexpr double kLongWindow_s = 5;

constexpr double kBusy = 0.85;         // share of the time that a saturated stage is busy
constexpr double kHeldUp = 0.10;       // share of the time that the ring blocks the producer
constexpr double kSuffers = 0.05;      // share of the time that a trainer waits
constexpr double kHasBatches = 0.2;    // share of the time in next() with an empty ring; below it, it is no wait
constexpr double kAllFresh = 0.98;     // fresh steps of a trainer that does not need to reuse
constexpr double kMostThreads = 4096;  // the most that the configuration allows
constexpr double kComputes = 0.5;      // cores; a trainer that uses more needs one of its own
constexpr double kMostCrops = 0.5;     // share of samples that makes smaller decodes worth mentioning
constexpr double kManyReads = 0.1;     // share of the decoders' work from which reads are worth mentioning
constexpr double kMiB = 1024 * 1024;
constexpr double kManyMiB = 256;     // memory that is worth saving
constexpr double kSafeCapacity = 8;  // batches; below it a burst finds no room (docs/tuning.md)

double percent(double share) { return 100 * share; }

// Below two rings full of batches, or five seconds.
bool is_too_short(const Profile& p) {
  if (p.window_s < kShortestWindow_s || p.batches < kFewestBatches * p.ranks) return true;
  // While the ring fills for the first time, every stage looks like the limit.
  const double fill = 2 * p.queue_capacity * static_cast<double>(p.ranks);
  return static_cast<double>(p.batches) < fill && p.window_s < kLongWindow_s;
}

// The images per second that a stage of each rank should reach, so that the other stages become the
// limit. 0 means unknown; then the other rate is the goal.
double goal(const Profile& p, double other_stage) {
  const double trainer = p.trainer.images_per_s_alone;
  const double total = other_stage > 0 && trainer > 0 ? std::min(other_stage, trainer) : std::max(other_stage, trainer);
  return total / static_cast<double>(p.ranks);
}

double threads_for(double images_per_s, double ms) {
  return std::clamp(std::ceil(images_per_s * ms * 1e-3), 1.0, kMostThreads);
}

std::string of_each_rank(const Profile& p) { return p.ranks > 1 ? " of each rank" : ""; }

// Cores that were used by decoders; for reading, by readers and decoders; for decoding; and by the
// rest of the process, mostly the trainer.
double decoder_cores(const Profile& p) { return p.decode.threads * p.decode.busy * p.decoder_cpu; }
double reading_cores(const Profile& p) { return p.reader_cores + decoder_cores(p) * p.decoder_reads; }
double decoding_cores(const Profile& p) { return decoder_cores(p) * (1 - p.decoder_reads); }
double trainer_cores(const Profile& p) { return std::max(0.0, p.process_cores - p.reader_cores - decoder_cores(p)); }
bool trainer_computes(const Profile& p) { return p.process_cores <= 0 || trainer_cores(p) >= kComputes; }

// Says what occupied the cores that decoders waited for: this process itself, or other load.
std::string who_had_the_cores(const Profile& p) {
  if (p.process_cores <= 0) return "";
  if (p.process_cores >= kBusy * p.cores) {
    return fmt::format(
        " because this process fills its {:.0f} cores (decoders {:.1f}, readers {:.1f}, the rest {:.1f})", p.cores,
        decoder_cores(p), p.reader_cores, trainer_cores(p));
  }
  return fmt::format(" although this process used {:.1f} of its {:.0f} cores: see what else runs there",
                     p.process_cores, p.cores);
}

std::string decode_smaller(const Profile& p) {
  if (p.shrinkable < kMostCrops) return "";
  return fmt::format(
      "; transform.decode = \"scaled\" makes samples cheaper: {:.0f} % of the crops are shrunk to half or less, and it "
      "decodes them smaller (lossy)",
      percent(p.shrinkable));
}

std::string takers(const Profile& p) {
  const auto ranks = static_cast<double>(p.ranks);
  return fmt::format("decoders could take {:.0f} and the trainer {:.0f} images/s{}",
                     p.decode.images_per_s_alone / ranks, p.trainer.images_per_s_alone / ranks,
                     p.ranks > 1 ? " on each rank" : "");
}

// Advice if readers are nearly always busy.
std::string more_readers(const Profile& p, double threads, double wanted) {
  std::string change = fmt::format("workers.io = {:.0f} (now {:.0f})", std::max(wanted, threads + 1), threads);
  // Every reader needs a request, and there are only as many as samples in the batches that may be
  // in flight.
  if (wanted > p.queue_capacity * p.batch_size) {
    change += fmt::format(" and queue.capacity = {:.0f} (now {:.0f})",
                          std::ceil(wanted / std::max(1.0, p.batch_size)) + 1, p.queue_capacity);
  }
  return fmt::format(
      "a read takes {:.2f} ms and the {:.0f} {} busy for {:.0f} % of the time, while {}: set {} if the store can bring "
      "more than {:.1f} MB/s, which it brings now, else use a faster store{}",
      p.read_ms, threads, threads > 1 ? "readers are" : "reader is", percent(p.storage.busy), takers(p), change,
      p.read_mb_s, p.fresh_fraction < kAllFresh ? " or smaller files" : ", smaller files or a policy that reuses");
}

// Tries in order: readers that are always busy; readers that wait for room in workers.bytes;
// readers that get too few requests because the ring is small; and bursts.
std::string storage_advice(const Profile& p) {
  const double threads = std::max(1.0, std::round(p.storage.threads));
  const double wanted = threads_for(goal(p, p.decode.images_per_s_alone), p.read_ms);
  if (p.storage.busy >= kBusy) return more_readers(p, threads, wanted);
  if (p.storage.blocked_out > 1 - kBusy) {
    const double mib = std::ceil(2 * p.workers_bytes / kMiB);
    return fmt::format(
        "readers wait for {:.0f} % of their time because workers.bytes are in flight, though the decoders have nothing "
        "to do: set workers.bytes = \"{:.0f} MiB\"",
        percent(p.storage.blocked_out), mib);
  }
  // Twice as many, so that a slow read at the head of the ring does not leave the other readers
  // without requests.
  const double asked = p.queue_capacity * p.batch_size;
  const double capacity = std::ceil(2 * std::max(wanted, threads) / std::max(1.0, p.batch_size));
  if (capacity > p.queue_capacity) {
    return fmt::format(
        "a read takes {:.2f} ms, and no more than queue.capacity x dataset.batch_size = {:.0f} samples are asked for "
        "at "
        "a time, so readers wait for {:.0f} % of their time: set queue.capacity = {:.0f} (now {:.0f}){}",
        p.read_ms, asked, percent(p.storage.blocked_in), capacity, p.queue_capacity,
        wanted > threads ? fmt::format(" and workers.io = {:.0f} (now {:.0f})", wanted, threads) : "");
  }
  return fmt::format(
      "a read takes {:.2f} ms; readers are busy for {:.0f} % and decoders for {:.0f} % of their time, so samples come "
      "in bursts: raise queue.capacity (now {:.0f}){}",
      p.read_ms, percent(p.storage.busy), percent(p.decode.busy), p.queue_capacity,
      p.process_cores < kBusy * p.cores ? ", and see whether other processes take the cores" : "");
}

// If decoders got less than a core each, fewer of them or more cores help; otherwise more decoders
// may help.
std::string decode_advice(const Profile& p) {
  const double threads = std::max(1.0, std::round(p.decode.threads));
  const double sample_ms = p.decode_ms / std::max(1 - p.decoder_reads, 0.01);
  const std::string reads = p.decoder_reads < kManyReads ? "" : fmt::format(" ({:.3f} ms of it to read)", p.read_ms);
  const std::string work = fmt::format(
      "a sample takes {:.{}f} ms{} and the {:.0f} {} busy for {:.0f} % of the time, while {} {:.0f} images/s",
      sample_ms, reads.empty() ? 2 : 3, reads, threads, threads > 1 ? "decoders are" : "decoder is",
      percent(p.decode.busy),
      p.trainer.images_per_s_alone < p.storage.images_per_s_alone ? "the trainer could take" : "storage could bring",
      goal(p, p.storage.images_per_s_alone));
  if (p.decoder_cpu > 0 && p.decoder_cpu < kBusy) {
    const double fewest = std::max(1.0, std::ceil(threads * p.decoder_cpu));  // never fewer than they get in total
    const std::string lower =
        fewest < threads ? fmt::format("set workers.decode = {:.0f} (now {:.0f}) or ", fewest, threads) : "";
    return work + fmt::format("; decoders got {:.0f} % of a core each{}; {}give each rank more cores{}",
                              percent(p.decoder_cpu), who_had_the_cores(p), lower, decode_smaller(p));
  }
  const double wanted = std::max(threads + 1, threads_for(goal(p, p.storage.images_per_s_alone), sample_ms));
  const double spare = std::max(threads, trainer_computes(p) ? p.cores - 1 : std::round(p.cores - p.reader_cores));
  if (spare > threads) {
    return work + fmt::format(": set workers.decode = {:.0f} (now {:.0f}; the rank has {:.0f} cores){}",
                              std::min(wanted, spare), threads, p.cores, decode_smaller(p));
  }
  return work + fmt::format(
                    ": give each rank more cores (it has {:.0f}, about {:.0f} would do), or make a sample cheaper: "
                    "{}smaller image files, a smaller transform.size, transform.dtype = \"uint8\"{}",
                    p.cores, wanted + 1, reads.empty() ? "" : "fewer files to open (forebay pack), ",
                    decode_smaller(p));
}

// Readers and decoders of small samples may fill the cores together, while neither is busy all the
// time.
bool workers_fill_the_cores(const Profile& p) {
  if (p.storage.busy >= kBusy || p.storage.blocked_out > 1 - kBusy) return false;
  return p.process_cores > 0 && p.process_cores >= kBusy * p.cores && trainer_cores(p) < 0.5 * p.process_cores;
}

std::string cores_advice(const Profile& p) {
  const bool reading = reading_cores(p) > decoding_cores(p);
  return fmt::format(
      "this process fills its {:.0f} cores (decoders {:.1f}, readers {:.1f}, the rest {:.1f}), while a sample takes "
      "{:.3f} ms "
      "to read and {:.3f} ms to decode: give each rank more cores, or {}{}",
      p.cores, decoder_cores(p), p.reader_cores, trainer_cores(p), p.read_ms, p.decode_ms,
      reading ? "have fewer files opened (forebay pack)"
              : "make a sample cheaper (forebay pack, a smaller transform.size)",
      decode_smaller(p));
}

// A smaller ring is enough if the store never let it run low. What the store's unsteadiness needed
// is how far the ring ever sank below full; twice that is enough, or twice what is in flight.
std::string smaller_ring(const Profile& p) {
  if (p.window_s < kLongWindow_s || p.fresh_fraction < kAllFresh || p.ring.least <= 0) return "";
  const double bridged = p.queue_capacity - p.ring.least;
  const double in_flight = p.storage.threads * p.storage.busy / std::max(1.0, p.batch_size);
  const double enough = std::ceil(std::max({kSafeCapacity, 2 * bridged + 2, 2 * in_flight + 2}));
  const double mib = (p.queue_capacity - enough) * p.batch_bytes / kMiB;
  if (2 * enough > p.queue_capacity || mib < kManyMiB) return "";
  return fmt::format(
      "; the store is steady, the ring never had fewer than {:.0f} batches: queue.capacity = {:.0f} (now {:.0f}) would "
      "do and save {:.0f} MiB{}",
      std::floor(p.ring.least), enough, p.queue_capacity, mib, of_each_rank(p));
}

std::string trainer_advice(const Profile& p) {
  const auto ranks = static_cast<double>(p.ranks);
  const std::string memory = smaller_ring(p);
  std::string text = fmt::format(
      "{}: a full ring held the producer up for {:.0f} % of the time, AU is {:.1f} %; storage could "
      "bring {:.0f} and decoders {:.0f} images/s{}, of which the trainer took {:.0f}",
      memory.empty() ? "nothing to change" : "nothing to change but memory", percent(p.producer_blocked),
      percent(p.trainer.busy), p.storage.images_per_s_alone / ranks, p.decode.images_per_s_alone / ranks,
      of_each_rank(p), p.trainer.images_per_s / ranks);
  if (p.fresh_fraction < kAllFresh) {
    text += fmt::format("; the policy reused on {:.0f} % of the steps though batches were ready",
                        percent(1 - p.fresh_fraction));
  }
  return text + memory;
}

// Advice if a fixed number of decoders takes the trainer's core.
std::string about_fixed_decoders(const Profile& p) {
  const bool all_cores = p.decode_fixed > 0 && p.cores > 1 && std::round(p.decode.threads) >= p.cores;
  if (!all_cores || p.process_cores <= 0 || !trainer_computes(p)) return "";
  return fmt::format(
      "; workers.decode is fixed at as many decoders as the rank has cores, and the trainer computes there too ({:.1f} "
      "cores): leave it at \"auto\"",
      trainer_cores(p));
}

std::string about_other_ranks(const Profile& p) {
  if (p.trainer.blocked_out < kSuffers) return "";
  return fmt::format("; the trainer waited {:.0f} % of the time for other ranks", percent(p.trainer.blocked_out));
}

std::string rate(double images_per_s) {
  constexpr double kUnknown = 1e7;  // the trainer does not compute
  return images_per_s > 0 && images_per_s < kUnknown ? fmt::format("{:.0f}", images_per_s) : "-";
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

// "; 98.0 % as JPEG without libjpeg-turbo, 95.0 % by the decode index"
std::string jpeg_text(const Profile& p) {
  if (p.own_jpeg <= 0) return "";
  std::string text = fmt::format("; {} as JPEG without libjpeg-turbo", percent_text(p.own_jpeg));
  if (p.indexed_jpeg > 0) text += fmt::format(", {} by the decode index", percent_text(p.indexed_jpeg));
  return text;
}

}  // namespace

std::string_view name_of(Bound bound) noexcept {
  switch (bound) {
    case Bound::too_short: return "too short to say";
    case Bound::storage: return "storage-bound";
    case Bound::decode: return "decode-bound";
    case Bound::trainer: return "trainer-bound";
    case Bound::balanced: break;
  }
  return "balanced";
}

Finding judge(const Profile& p) {
  const auto say = [&](Bound bound, const std::string& why) {
    return Finding{bound, std::string(name_of(bound)) + ": " + why + about_fixed_decoders(p) + about_other_ranks(p)};
  };
  if (is_too_short(p)) {
    return {Bound::too_short,
            fmt::format("{}: {:.1f} s and {} batches were seen; give it some seconds and several times queue.capacity",
                        name_of(Bound::too_short), p.window_s, p.batches)};
  }
  const bool held_up = p.producer_blocked >= kHeldUp;
  const bool suffers = p.trainer.blocked_in > kSuffers;
  if (held_up && !suffers) return say(Bound::trainer, trainer_advice(p));
  if (held_up && p.ring.empty < kHasBatches * p.trainer.blocked_in) {
    return say(
        Bound::trainer,
        fmt::format("batches were ready ({:.1f} of {:.0f} on average), yet next() took {:.0f} % of the time: the "
                    "trainer's thread augments there (transform.when = \"dequeue\" without a GPU) or lacked a core",
                    p.ring.mean, p.queue_capacity, percent(p.trainer.blocked_in)));
  }
  if (held_up) {
    return say(Bound::balanced,
               fmt::format("the ring was full for {:.0f} % of the time, yet the trainer waited for {:.0f} %: batches "
                           "come in bursts; raise queue.capacity (now {:.0f})",
                           percent(p.producer_blocked), percent(p.trainer.blocked_in), p.queue_capacity));
  }
  if (!suffers && p.fresh_fraction >= kAllFresh) {
    return say(Bound::balanced,
               fmt::format("the producer just keeps up with the trainer (AU {:.1f} %); more of either makes the other "
                           "the limit",
                           percent(p.trainer.busy)));
  }
  if (p.decode.busy >= kBusy && p.storage.busy >= kBusy) {
    return say(Bound::balanced,
               fmt::format("readers and decoders are both at work for over {:.0f} % of the time: raising workers.io "
                           "(now {:.0f}) alone or workers.decode (now {:.0f}) alone changes little{}",
                           percent(kBusy), p.storage.threads, p.decode.threads, decode_smaller(p)));
  }
  if (p.decode.busy >= kBusy) return say(Bound::decode, decode_advice(p));
  if (workers_fill_the_cores(p)) {
    return say(reading_cores(p) > decoding_cores(p) ? Bound::storage : Bound::decode, cores_advice(p));
  }
  return say(Bound::storage, storage_advice(p));
}

// For several ranks: the mean of all, and the slowest rank by number, because it holds up the
// others.
std::string profile_table(std::span<const Profile> ranks) {
  if (ranks.empty()) return "";
  const Profile job = ranks.size() == 1 ? ranks.front() : combine(ranks);
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  };
  const auto stage = [&](std::string_view name, const StageProfile& one) {
    line("{:<9} {:>7.1f} {:>8} {:>10} {:>11} {:>10} {:>10}", name, one.threads, percent_text(one.busy),
         percent_text(one.blocked_in), percent_text(one.blocked_out), rate(one.images_per_s),
         rate(one.images_per_s_alone));
  };
  line(
      "profile   {:.1f} s, {} batches{}", job.window_s, job.batches,
      ranks.size() > 1 ? fmt::format("; shares and threads: mean of {} ranks, images/s: their sum", ranks.size()) : "");
  line("{:<9} {:>7} {:>8} {:>10} {:>11} {:>10} {:>10}", "stage", "threads", "busy", "blocked-in", "blocked-out",
       "images/s", "alone");
  stage("order", job.order);
  stage("storage", job.storage);
  stage("decode", job.decode);
  stage("trainer", job.trainer);
  constexpr double kMebibyte = 1024 * 1024;
  line("ring      {:.1f} of {:.0f} batches ready; empty {}, full {} of the time; full ring blocked the producer {}",
       job.ring.mean, job.queue_capacity, percent_text(job.ring.empty), percent_text(job.ring.full),
       percent_text(job.producer_blocked));
  line(
      "encoded   {:.1f} samples wait for a decoder, none {} of the time; {:.1f} of {:.1f} MiB in flight, most {:.1f}, "
      "full {}",
      job.encoded.mean, percent_text(job.encoded.empty), job.bytes.mean / kMebibyte, job.workers_bytes / kMebibyte,
      job.bytes.most / kMebibyte, percent_text(job.bytes.full));
  line(
      "samples   read in {:.2f} ms, decoded in {:.2f} ms; decoders got {:.0f} % of a core when busy; {:.1f} MB/s "
      "read{}",
      job.read_ms, job.decode_ms, 100 * job.decoder_cpu, job.read_mb_s, jpeg_text(job));
  if (ranks.size() > 1) {
    const std::size_t slowest = slowest_rank(ranks);
    line("slowest   rank {} with {} fresh images/s: {}", slowest, rate(ranks[slowest].trainer.images_per_s),
         judge(ranks[slowest]).sentence);
  }
  line("{}", judge(job).sentence);
  return text;
}

}  // namespace forebay

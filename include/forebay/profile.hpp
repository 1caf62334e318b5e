#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Where a run spends its time, stage by stage, and what limits it. docs/telemetry.md explains the figures for users.
namespace forebay {

// What the threads of one stage did. Shares are fractions of the stage's thread time, without that of parked threads;
// they are 0 to 1 and add up to 1.
struct StageProfile {
  double threads = 0;       // the mean number of threads working or waiting
  double busy = 0;          // share of time working
  double blocked_in = 0;    // share of time waiting for input
  double blocked_out = 0;   // share of time waiting for room downstream; the trainer: for other ranks
  double images_per_s = 0;  // actual throughput
  // Throughput if its threads never waited; the trainer: with fresh batches only. 0 = not known.
  double images_per_s_alone = 0;
};

// How full a queue or buffer was, over time.
struct QueueProfile {
  double mean = 0;
  double most = 0;
  double least = 0;  // since it was first full; 0 if it never was
  double empty = 0;  // share of the time
  double full = 0;   // share of the time; 0 if it has no bound
};

// Figures of a rank or of a job; a job's are means over its ranks, with images_per_s and images_per_s_alone summed.
// Workers and queues are observed from the first next() until nothing is left to produce; the trainer over the same
// time as in Summary.
struct Profile {
  double window_s = 0;  // how long workers and queues were observed
  std::uint64_t ranks = 1;
  std::uint64_t batches = 0;    // made ready in the window
  StageProfile order;           // the issuer: claims slots and requests samples
  StageProfile storage;         // reader threads; images_per_s includes reads by decoders
  StageProfile decode;          // decoder threads
  StageProfile trainer;         // blocked_in: waiting for batches, blocked_out: for other ranks
  QueueProfile encoded;         // samples that wait for a decoder
  QueueProfile bytes;           // encoded bytes in flight, with an exact `most`; full = nine tenths of workers.bytes
  QueueProfile ring;            // ready batches; full = as many as may be
  double producer_blocked = 0;  // share of the window in which a full ring blocked the producer
  double read_ms = 0;           // mean time of a read
  double decode_ms = 0;         // mean time from encoded bytes to a place in the ring
  double read_mb_s = 0;         // 10^6 bytes read per second
  double decoder_cpu = 0;       // processor time of the decoders / their busy time; 1 = each had a core when it wanted
  double decoder_reads = 0;     // share of the decoders' busy time spent on reads, which they make if reads are quick
  double reader_cores = 0;      // processor time per second of the readers, and of the whole process;
  double process_cores = 0;     // 0 = not known
  double shrinkable = 0;        // share of the samples that transform.decode = "scaled" would decode smaller
  double own_jpeg = 0;          // share of the samples whose JPEG file Forebay decoded without libjpeg-turbo
  double indexed_jpeg = 0;      // share of the samples whose JPEG file was decoded with the decode index
  double fresh_fraction = 0;    // share of the trainer's steps
  double cores = 0;             // that this rank may use; an equal part if ranks share them
  double decode_fixed = 0;      // 1 where workers.decode is a number
  double batch_size = 0;
  double batch_bytes = 0;     // memory of a batch in the queue
  double queue_capacity = 0;  // batches that may be ready; if queue.capacity = "auto", at the end of the window
  double workers_bytes = 0;
};

enum class Bound : std::uint8_t { too_short, storage, decode, trainer, balanced };

// "storage-bound", "decode-bound", "trainer-bound", "balanced", "too short to say".
[[nodiscard]] std::string_view name_of(Bound bound) noexcept;

// What limits a run, and what to change.
struct Finding {
  Bound bound = Bound::too_short;
  std::string sentence;  // begins with name_of(bound); no newline
};

// Finds the limit from the figures alone. It is
// - the trainer if a full ring blocks the producer for a tenth of the time and the trainer waits for less than a
//   twentieth of it;
// - none (balanced) if the ring blocks and yet the trainer waits, if the ring does not block and the trainer neither
//   waits nor reuses, or if readers and decoders are both busy for 0.85 of their time;
// - otherwise the decoders if they are busy for 0.85 of their time; if they are not, but all workers together fill the
//   cores, the decoders or the storage, whichever uses more of them; else the storage.
// The proposed number of threads follows from Little's law: the rate that the other stages could take, times the time
// per sample. It never proposes fewer decoders than the cores that they use in total.
[[nodiscard]] Finding judge(const Profile& profile);

// A job's figures from those of its ranks.
[[nodiscard]] Profile combine(std::span<const Profile> ranks);
// The index of the rank that served the fewest fresh images per second. REQUIRES: !ranks.empty().
[[nodiscard]] std::size_t slowest_rank(std::span<const Profile> ranks) noexcept;

// Several lines of text, ending with the finding; with several ranks the job's figures and those of the slowest rank.
[[nodiscard]] std::string profile_table(std::span<const Profile> ranks);

// A JSON object with the keys of docs/telemetry.md, including the finding.
[[nodiscard]] std::string to_json(const Profile& profile);
// The inverse of to_json(const Profile&). Throws Error.
[[nodiscard]] Profile profile_from_json(const std::string& json);

}  // namespace forebay

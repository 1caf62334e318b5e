#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Where the time of a run goes, stage by stage, and what limits it. docs/telemetry.md explains the figures for users.
namespace forebay {

// What the threads of one stage did. Shares are of the stage's thread time, threads that are parked left out; they are
// 0 to 1 and add up to 1.
struct StageProfile {
  double threads = 0;       // that were working or waiting, on average
  double busy = 0;          // share of their time at work
  double blocked_in = 0;    // waiting for something to do
  double blocked_out = 0;   // waiting for room downstream; the trainer: for other ranks
  double images_per_s = 0;  // what the stage did
  // What its threads could do if they never waited; the trainer: fresh batches only. 0 = not known.
  double images_per_s_alone = 0;
};

// How full something was, over time.
struct QueueProfile {
  double mean = 0;
  double most = 0;
  double least = 0;  // since it was full for the first time; 0 where it never was
  double empty = 0;  // share of the time
  double full = 0;   // share of the time; 0 for what has no bound
};

// Figures of a rank, or of a job: means over its ranks, images_per_s and images_per_s_alone summed. Workers and queues
// are seen from the first next() on, as long as there is something left to produce; the trainer as by Summary.
struct Profile {
  double window_s = 0;  // how long workers and queues were looked at
  std::uint64_t ranks = 1;
  std::uint64_t batches = 0;    // made ready in the window
  StageProfile order;           // the issuer: claims slots and asks for samples
  StageProfile storage;         // reader threads; images_per_s counts the reads of decoders too
  StageProfile decode;          // decoder threads
  StageProfile trainer;         // blocked_in: waiting for batches, blocked_out: for other ranks
  QueueProfile encoded;         // samples that wait for a decoder
  QueueProfile bytes;           // encoded bytes in flight, `most` exact; full = nine tenths of workers.bytes
  QueueProfile ring;            // batches ready; full = as many as may be
  double producer_blocked = 0;  // share of the window in which a full ring blocked the producer
  double read_ms = 0;           // mean time of a read
  double decode_ms = 0;         // mean time from encoded bytes to a place in the ring
  double read_mb_s = 0;         // 10^6 bytes read per second
  double decoder_cpu = 0;       // processor time of the decoders / their busy time; 1 = each had a core when it wanted
  double decoder_reads =
      0;  // share of the decoders' busy time that went into reads, which they make where those are quick
  double reader_cores = 0;    // processor time of the readers, and of the whole process, per second;
  double process_cores = 0;   // 0 = not known
  double shrinkable = 0;      // share of the samples that transform.decode = "scaled" would decode smaller
  double own_jpeg = 0;        // share of the samples whose JPEG file Forebay decoded without libjpeg-turbo
  double indexed_jpeg = 0;    // share of the samples whose JPEG file was decoded with the decode index
  double fresh_fraction = 0;  // of the trainer's steps
  double cores = 0;           // this rank may use; an equal part where ranks share them
  double decode_fixed = 0;    // 1 where workers.decode is a number
  double batch_size = 0;
  double batch_bytes = 0;     // memory of a batch in the queue
  double queue_capacity = 0;  // batches that may be ready; with queue.capacity = "auto" at the end of the window
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

// A function of the numbers alone. The limit is
// - the trainer where a full ring blocks the producer for a tenth of the time and the trainer waits for less than a
//   twentieth of it;
// - the decoders, or else the storage, where the ring does not block, and the trainer waits or reuses; the decoders
//   where they are busy for 0.85 of their time.
// The number of threads it proposes is Little's law: the rate that the other stages could take times the time that one
// sample takes; fewer decoders than what they get of the cores in sum are never proposed.
[[nodiscard]] Finding judge(const Profile& profile);

// A job's figures out of its ranks'.
[[nodiscard]] Profile combine(std::span<const Profile> ranks);
// The rank that served the fewest fresh images per second. REQUIRES: !ranks.empty().
[[nodiscard]] std::size_t slowest_rank(std::span<const Profile> ranks) noexcept;

// Several lines for people, the finding last; with several ranks the job's figures and the slowest rank.
[[nodiscard]] std::string profile_table(std::span<const Profile> ranks);

// JSON object with the keys of docs/telemetry.md, the finding among them.
[[nodiscard]] std::string to_json(const Profile& profile);
// Undoes to_json(const Profile&); throws Error.
[[nodiscard]] Profile profile_from_json(const std::string& json);

}  // namespace forebay

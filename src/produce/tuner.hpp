#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <forebay/options.hpp>

#include "base/cores.hpp"

namespace forebay::produce {

struct WorkerCounts {
  unsigned io = 1;
  unsigned decode = 1;

  friend bool operator==(const WorkerCounts&, const WorkerCounts&) = default;
};

// How many worker threads a rank starts with, and how many there may be. A number set in the options is both.
struct WorkerPlan {
  WorkerCounts first;
  WorkerCounts most;
  unsigned cores = 1;  // cores that this rank may use
  std::string reason;  // where these numbers come from, for the log line at start-up

  [[nodiscard]] bool tunes() const noexcept { return first != most; }
};

// "8 readers, 1 decoder".
[[nodiscard]] std::string describe(const WorkerCounts& counts);
// The same, with its reason and limits.
[[nodiscard]] std::string describe(const WorkerPlan& plan);

// "auto" decoders: the cores this rank may use minus one for the trainer, at least one; all of them if the trainer
// turns out to leave its core idle. `share`: this rank's part of the cores that it shares with others on its node.
// "auto" readers: they mostly wait for storage, so eight per decoder, between 16 and 64, to begin with.
[[nodiscard]] WorkerPlan plan_workers(const WorkerOptions& options, const Cores& cores, const CoreShare& share);

// What the workers did in an interval that ends now.
struct WorkerWindow {
  double seconds = 0;  // its length
  std::uint64_t reads = 0;
  std::uint64_t decoded = 0;
  double reading_s = 0;      // readers in the store, summed over threads
  double lent_s = 0;         // decoders in the store, summed over threads
  double decoding_s = 0;     // decoders at work, their reads included, summed over threads
  double starved_s = 0;      // decoders that waited for bytes, summed over threads
  double unasked_s = 0;      // readers that waited for requests, summed over threads
  double decoder_cpu_s = 0;  // processor time of the decoders
  double reader_cpu_s = 0;   // and of the readers
  double trainer_cpu_s = 0;  // processor time of the process, without readers and decoders
  double blocked_s = 0;      // the ring was full
};

// Decides how many readers and decoders are wanted, from what they did. No threads, no clocks.
//
//  - Decoders starve while readers are in the store all the time: more readers, as many as Little's law asks for at the
//    rate that the decoders could take (reads in flight = rate * time of one read), at most twice as many at a time.
//  - Decoders never starve and cores of this rank are idle, the trainer's included: one more decoder.
//  - The trainer computes and decoders have to wait for cores: back towards the number they began with.
//  - Far fewer reads are in flight than there are readers, although the decoders or all cores are busy: fewer readers.
//  - While the ring is full there is nothing to gain, and nothing is changed.
//
// Each increase is a trial: unless it brings a good part of the expected gain, it is undone and not tried again for a
// while, twice as long each time. So a store limited by its bandwidth is not read by ever more readers.
class Tuner {
 public:
  explicit Tuner(const WorkerPlan& plan);

  // Takes in a window, during all of which counts() were wanted. Returns whether they have changed. The window should
  // contain a few reads of each reader, and last a tenth of a second or more.
  bool look(const WorkerWindow& window);

  // Reports that the system allowed only these threads. More are tried again after a pause, as after an unsuccessful
  // increase.
  void refused(WorkerCounts there);

  [[nodiscard]] WorkerCounts counts() const noexcept { return counts_; }
  // The reason for the current counts: what was observed when they last changed.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  // Windows since the counts changed; 0 during a trial.
  [[nodiscard]] unsigned settled_for() const noexcept { return trial_ ? 0 : settled_; }

 private:
  // The pause before an unsuccessful increase is tried again.
  struct Pause {
    double until_s = 0;
    double length_s = 0;
  };
  struct Trial {
    WorkerCounts before;
    Pause* pause = nullptr;  // of the side that was increased
    double rate = 0;         // before
    double starved = 0;      // share, before
    double wanted_gain = 0;  // of the rate, for success
    unsigned windows = 0;    // since
    double rate_sum = 0;     // of the windows that count
    double starved_sum = 0;
  };

  bool judge(const WorkerWindow& window);
  bool grow_readers(const WorkerWindow& window);
  bool grow_decoders(const WorkerWindow& window);
  bool make_way(const WorkerWindow& window);
  bool shrink_readers(const WorkerWindow& window);
  void try_out(const WorkerWindow& window, WorkerCounts counts, Pause& pause, double wanted_gain, std::string reason);
  // Suspends increases of that side for a while, twice as long each time.
  void set_aside(Pause& pause) const noexcept;
  bool change(WorkerCounts counts, std::string reason);

  WorkerPlan plan_;
  WorkerCounts counts_;
  std::string reason_;
  std::optional<Trial> trial_;
  Pause readers_pause_;
  Pause decoders_pause_;
  double now_s_ = 0;
  double rate_ = 0;  // samples per second under these counts, the last windows weigh most
  unsigned settled_ = 0;
  unsigned idle_windows_ = 0;  // with far fewer reads than readers, less two for each other window
};

// Decides when more batches must be requested at a time, from what the workers did. No threads, no clocks.
//
// Samples are requested only as far as the ring has room. If reads take long, that leaves readers without requests and
// decoders without bytes, although the ring is never full: for as long as it does, the number of batches is doubled.
class AskTuner {
 public:
  // Takes in a window, during all of which `counts` worked. Returns whether more should be requested.
  bool look(const WorkerWindow& window, const WorkerCounts& counts) noexcept;

 private:
  // Shares of the time: of all readers without requests, of all decoders without bytes, and of a full ring.
  static constexpr double kUnasked = 0.05;
  static constexpr double kStarved = 0.1;
  static constexpr double kBlocked = 0.1;
  static constexpr unsigned kWindows = 3;  // more than those that were otherwise

  unsigned windows_ = 0;
};

}  // namespace forebay::produce

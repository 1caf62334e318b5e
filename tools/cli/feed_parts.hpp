#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include <forebay/lease.hpp>
#include <forebay/options.hpp>
#include <forebay/random.hpp>

#include "base/output_file.hpp"
#include "job.hpp"

namespace forebay::cli {

// Stands in for a trainer: each step sleeps for a random time, which leaves all cores to the
// decoders, and then joins the other ranks in an all-reduce.
class EmulatedTrainer {
 public:
  // `stop`: ends a sleep early. References must outlive the trainer.
  EmulatedTrainer(const TrainerOptions& options, std::uint64_t seed, Job& job, const std::atomic<bool>& stop);

  void step();

 private:
  [[nodiscard]] double draw_ms() noexcept;

  TrainerOptions options_;
  Random random_;
  Job& job_;
  const std::atomic<bool>& stop_;
};

// XXH3-64 of a batch: the bytes of its images, then those of its labels.
[[nodiscard]] std::uint64_t batch_hash(const Lease& batch);

// Logs what was served, for comparing runs: DIR/ids.RANK.jsonl has a line per step with step,
// epoch, use_index, batch, ids (sample numbers in the dataset) and hash (hexadecimal).
class IdLog {
 public:
  // Creates the folder. `resumes`: appends to the log of an earlier run. Throws ConfigError naming the file.
  IdLog(const std::filesystem::path& dir, std::uint32_t rank, bool resumes);

  // Throws Error if the write fails or does not end in time: a log with gaps would be worse than
  // none.
  void write(const Lease& batch);

 private:
  std::filesystem::path file_;
  std::shared_ptr<const FileDescriptor> out_;  // shared with a write that may never return
};

// While an object exists, the given signals set a flag instead of ending the process. One object at a time.
class StopOnSignal {
 public:
  explicit StopOnSignal(std::span<const int> signals);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  [[nodiscard]] static const std::atomic<bool>& flag() noexcept;
  // The run has stopped, whichever rank got the signal.
  static void note_stop() noexcept;
  // Whether the launcher, this process's parent, sent a SIGTERM.
  [[nodiscard]] static bool launcher_ends_the_job() noexcept;

 private:
  static constexpr std::size_t kMost = 4;

  std::array<int, kMost> signals_{};
  std::array<struct sigaction, kMost> previous_{};
  std::size_t count_ = 0;
};

// While a run is starting, nothing polls StopOnSignal::flag(), and a read that never returns would
// keep the process alive for ever. While an object of this class exists, a signal ends the process
// with this exit code after 5 s.
class BoundedStart {
 public:
  explicit BoundedStart(int exit_code) noexcept;
  ~BoundedStart();
  BoundedStart(const BoundedStart&) = delete;
  BoundedStart& operator=(const BoundedStart&) = delete;
};

// Ends the process with this exit code if it is still running after the given time. Used at the end
// of a stopped run, once everything that matters is written and flushed.
void exit_at_the_latest(std::chrono::milliseconds after, int exit_code);

}  // namespace forebay::cli

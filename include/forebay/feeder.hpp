#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/field.hpp>
#include <forebay/lease.hpp>
#include <forebay/log.hpp>
#include <forebay/operation.hpp>
#include <forebay/options.hpp>
#include <forebay/policy.hpp>
#include <forebay/profile.hpp>
#include <forebay/summary.hpp>
#include <forebay/tensor.hpp>

namespace forebay {

class StopRequest;

// Parts that a program may supply; those left empty are made from the options.
struct Parts {
  std::shared_ptr<const Dataset> dataset = nullptr;  // must be equal on all ranks; docs/custom-dataset.md
  PolicyRegistry policies = PolicyRegistry::builtin();
  OperationRegistry operations =
      OperationRegistry::builtin();  // what transform.operations may name; equal on all ranks
  // A flag owned by the program; true = stop, as by request_stop(). For signal handlers that may run before the feeder
  // exists; the constructor throws Error if it is then still opening data at a URL 3 s later. Must outlive the feeder.
  const std::atomic<bool>* stop = nullptr;
  // A file written by Feeder::save(): if rank 0 finds it, the job resumes from there; otherwise it starts at the
  // beginning.
  std::string resume = {};
  // Where close() writes a Chrome trace of what the threads did in the first `trace_s` seconds (docs/telemetry.md);
  // empty = nowhere. With several ranks each writes its own, with its rank before the extension.
  std::string trace = {};
  double trace_s = 10;
  // Called on the trainer's thread about every 5 ms while the constructor waits for the index or the first batch, and
  // while next() waits for a batch; with one rank also while close() waits for reads in progress. It may throw, and the
  // wait then ends with that exception. With one rank, next() may then be called again and resumes the same step, and
  // close() must be called again; with several, the run ends on all ranks. Must not call the feeder, except
  // request_stop().
  std::function<void()> while_waiting = {};
  // Receives log lines: warnings, errors, and progress every telemetry.interval_s. Empty: standard error.
  Logger log = {};
};

// Feeds batches to a trainer. Reads, decodes and assembles them on its own worker threads; next() never waits for those
// while the policy, and its cap on uses, allows it to reuse a resident batch.
//
// Threads: one thread (the trainer's) constructs the feeder and calls next(), summary() and close(); no other thread
// makes MPI calls. request_stop() may be called from any thread and from a signal handler.
// Errors: the constructor throws ConfigError and Error on all ranks alike; next() throws Error with path and cause, on
// all ranks at the same step.
// Forks: a child process has none of the feeder's threads. Calls that could wait for them throw Error there; leases may
// end, and the destructor does nothing, so memory and Parts stay until the process ends.
class Feeder {
 public:
  // A single rank. Throws ConfigError in a process that mpirun, mpiexec or srun started as one of several, because then
  // the communicator was forgotten. If each process really is a separate job, pass *solo_communicator().
  explicit Feeder(Options options, Parts parts = {});
  // One of several ranks. Collective. Duplicates the communicator.
  Feeder(Options options, const Communicator& communicator, Parts parts = {});
  Feeder(Feeder&&) noexcept;
  Feeder& operator=(Feeder&&) noexcept;
  ~Feeder();  // close()

  // Whether this process was forked from the one that made the feeder. A plain load; any thread.
  [[nodiscard]] bool is_forked() const noexcept;
  // Throws Error if is_forked(), as the calls below do.
  void require_own_process() const;

  // The next step's batch, fresh or reused, or nothing at the end (of the epochs or steps, or after a stop; with
  // next_epoch(), of each epoch). All ranks get the same number of batches. Collective with several ranks. While a
  // batch is ready it does not allocate, lock, or enter the kernel, except to wake a parked producer, in the first
  // call, which opens the telemetry files, and in the MPI calls of several ranks. Throws Error if `queue.max_leases`
  // leases are already held and, with batches on a GPU, if the stream is cudaStreamPerThread, which is a different
  // stream on the thread that ends the lease, or CUDA's default stream while another GPU is current. With one rank no
  // step is then made, and the call may be repeated. With several, these and all other errors end the run on all ranks
  // at the same step, with the message of the failing rank; so does a rank that has left (close(), the destructor)
  // while others ask for another step, and one that does not arrive for `policy.watchdog_s`.
  [[nodiscard]] std::optional<Lease> next(StreamView stream = {});

  // For a trainer that does something after each epoch:
  //
  //   while (feeder.next_epoch()) {
  //     while (auto batch = feeder.next()) train_step(batch->images(), batch->labels());
  //     evaluate();
  //   }
  //
  // Begins an epoch, or continues the one that a resumed run or a `break` left; false when the run has ended. next()
  // then returns nothing at the end of each epoch: on all ranks at the same step, the one after the epoch's last batch.
  // By then no rank has been served anything of the next epoch, which is being prefetched. A rank that has served its
  // part of the epoch before the others reuses batches, whatever `mpi.epoch_end` is. In the loop epochs_completed() is
  // the number of the epoch; after it, one more, unless the run was stopped or its steps were done. An evaluation is
  // one epoch. The call before the first next() is collective and is made by all ranks or by none. Throws Error on all
  // ranks if they do not agree on that, and whatever ended the run; also after a next() without a preceding
  // next_epoch().
  [[nodiscard]] bool next_epoch();

  // The stream that orders leases if the trainer does not pass its own.
  [[nodiscard]] StreamView stream() const noexcept;

  // Asks all ranks to stop at the same step, soon. Async-signal-safe; any thread, at any time during the feeder's life,
  // even while restore() or next_epoch() runs. For requests before the feeder exists, use Parts::stop.
  void request_stop() noexcept;

  // The position of the job after the steps made so far, for state files and checkpoints: a few kilobytes of text that
  // name the next undelivered batch of every virtual shard (docs/state.md). Equal on all ranks. May be called at any
  // step, even after next() has returned nothing, but not after close(). Collective: all ranks call it after the same
  // number of steps. Errors are thrown on all ranks.
  [[nodiscard]] std::string state();
  // Saves state() to a file, atomically: it is written whole or not at all. A thread of rank 0 writes it and no rank
  // waits for the disk: the file is durable once finish_saves(), close() or the destructor has returned, or, after the
  // end of the run, once save() has. At most one save is being written while one more waits; a newer one for the same
  // file replaces the waiting one, and one for another file makes save() wait. Collective. Throws Error with path and
  // cause on all ranks if it failed, or if an earlier save failed and that was not reported yet (this one is still
  // written). A failed save leaves the file unchanged.
  void save(const std::string& file);
  // Waits until all saves are durable, for programs that rely on that, for example to publish a checkpoint. Collective.
  // Throws like save(). No effect after close().
  void finish_saves();

  // Resumes a job from its saved state: at the same step and epochs, with the batches not delivered by then. The number
  // of ranks may differ, up to mpi.virtual_shards. With the same number, and if no batches were handed over between
  // ranks, the fresh batches of each rank are bit for bit those of an uninterrupted run. Collective, before the first
  // next(). Discards what was prefetched and restarts production; Parts::resume avoids that. stream() does not change.
  // Throws ConfigError on all ranks if the file is not a state, or is the state of another dataset or configuration:
  // the feeder is then unchanged and usable. Any other error (no memory, a failing store or device) leaves it closed.
  // Throws Error after the first next() and after close(), whether or not the file exists.
  void restore(const std::string& file);
  // The same, but returns false if there is no such file.
  bool restore_if_present(const std::string& file);
  // The same from the text of state(), equal on all ranks.
  void restore_state(std::string_view state);

  // Steps made since the run began, including those before a resume.
  [[nodiscard]] std::uint64_t steps() const noexcept;
  // Whether next() returned nothing because of a requested stop, before the epochs or steps were done.
  [[nodiscard]] bool was_stopped() const noexcept;
  // Epochs of which the job has served every batch; advances at the same step on every rank.
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept;
  // Batches in an epoch over all ranks.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  // The number of steps in an epoch if every step is fresh: the batches initially assigned to the rank that has the
  // most. Equal on all ranks. With mpi.mode = "local" ranks may hand batches over, and an epoch then takes a few steps
  // fewer.
  [[nodiscard]] std::uint64_t steps_per_epoch() const noexcept;
  [[nodiscard]] const Dataset& dataset() const noexcept;
  // The dataset, for a second feeder of the same data, which then need not index it again.
  [[nodiscard]] std::shared_ptr<const Dataset> shared_dataset() const noexcept;
  // The fields of every batch: "image", "label", then those of the dataset in its order (forebay/field.hpp). Each field
  // of boxes is followed by its classes, named NAME.class. Shapes are those of one sample.
  [[nodiscard]] const std::vector<Field>& fields() const noexcept;
  // The number of a field, for Lease::field(). Throws ConfigError, which lists the names, if there is none of this
  // name.
  [[nodiscard]] std::size_t field_number(std::string_view name) const;
  [[nodiscard]] const Options& options() const noexcept;
  // The sizes of the worker pools and the ring, for a log line at start-up.
  [[nodiscard]] std::string describe() const;

  // This rank's figures so far.
  [[nodiscard]] Summary summary() const;
  // Where this rank's time has gone since the first next(), and what limits it. May be called after close(), too. Takes
  // locks, so do not call it at every step.
  [[nodiscard]] Profile profile() const;

  // Stops the workers, flushes telemetry, closes the communicator (collective; waits for the other ranks for at most 5
  // s, or policy.watchdog_s if they are known to make steps that this one does not), and waits until all saves are
  // durable. Leases that are still held stay valid. Idempotent. Throws Error, on rank 0 alone, if a save failed and
  // that was not reported yet; everything is closed even then.
  void close();

 private:
  class Impl;
  [[nodiscard]] Impl& own() const;

  std::shared_ptr<StopRequest> stop_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

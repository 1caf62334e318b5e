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

// Parts that a program may supply; whatever is left empty is made from the options.
struct Parts {
  std::shared_ptr<const Dataset> dataset = nullptr;  // must be equal on all ranks; docs/custom-dataset.md
  PolicyRegistry policies = PolicyRegistry::builtin();
  OperationRegistry operations =
      OperationRegistry::builtin();  // what transform.operations may name; equal on all ranks
  // A flag that the program owns; true = stop, as by request_stop(). For signal handlers that may run before the feeder
  // exists. Must outlive the feeder.
  const std::atomic<bool>* stop = nullptr;
  // A file of Feeder::save(): if rank 0 finds it, the job resumes from there; otherwise it starts at the beginning.
  std::string resume = {};
  // Where close() writes a Chrome trace of what the threads did in the first `trace_s` seconds (docs/telemetry.md);
  // empty = none. With several ranks each writes one, its number before the extension.
  std::string trace = {};
  double trace_s = 10;
  // Called on the trainer's thread about every 5 ms while the constructor waits for the index or the first batch, and
  // while next() waits for a batch; with one rank also while close() waits for reads under way. May throw: the wait
  // ends with that exception. With one rank, next() may then be called again and resumes the same step, and close()
  // must be called again; with several, the run ends on all ranks. Must not call the feeder, except request_stop().
  std::function<void()> while_waiting = {};
  // Where lines for people go: warnings, errors, and progress every telemetry.interval_s. Empty: standard error.
  Logger log = {};
};

// Feeds a trainer with batches. Reads, decodes and assembles them on its own worker threads; next() never waits for
// those while the policy, and its cap on uses, may reuse a resident batch.
//
// Threads: one thread (the trainer's) constructs, calls next(), summary() and close(); it is the only thread
// that makes MPI calls. request_stop() may be called from any thread and from a signal handler.
// Errors: the constructor throws ConfigError and Error on all ranks alike; next() throws Error with path and cause,
// on all ranks at the same step.
// Forks: a process that is forked from the one that made the feeder has none of its threads. Calls that could wait for
// them throw Error there; leases may end, and the destructor does nothing, so that memory and Parts are left to the end
// of the process.
class Feeder {
 public:
  // A single rank. Throws ConfigError in a process that mpirun, mpiexec or srun started as one of several, where the
  // communicator was forgotten. If each process really is a separate job, pass *solo_communicator().
  explicit Feeder(Options options, Parts parts = {});
  // One of several ranks. Collective. Duplicates the communicator.
  Feeder(Options options, const Communicator& communicator, Parts parts = {});
  Feeder(Feeder&&) noexcept;
  Feeder& operator=(Feeder&&) noexcept;
  ~Feeder();  // close()

  // Whether this process was forked from the one that made the feeder. A plain load; any thread.
  [[nodiscard]] bool is_forked() const noexcept;
  // Throws Error if it was, as the calls below do.
  void require_own_process() const;

  // The next step's batch, fresh or reused, or nothing at the end (of the epochs, the steps, or after a stop; after
  // next_epoch() of each epoch).
  // All ranks get the same number of batches. Collective with several ranks. While a batch is ready it does not
  // allocate, lock, or enter the kernel, except to wake a parked producer, in the first call, which opens the telemetry
  // files, and in MPI calls of several ranks. Throws Error if `queue.max_leases` leases are held already. With batches
  // on a GPU also if the stream is cudaStreamPerThread, which is another stream on the thread that ends the lease, or
  // CUDA's default stream while another GPU is current. With one rank no step is made then, and the call may be
  // repeated. With several, these and all other errors end the run on all ranks at the same step, with the message of
  // the rank that met it; so does a rank that has left (close(), the destructor) while others ask for another step, and
  // one that does not come for `policy.watchdog_s`.
  [[nodiscard]] std::optional<Lease> next(StreamView stream = {});

  // For a trainer that does something after each epoch:
  //
  //   while (feeder.next_epoch()) {
  //     while (auto batch = feeder.next()) train_step(batch->images(), batch->labels());
  //     evaluate();
  //   }
  //
  // Begins an epoch, or continues the one that a resumed run or a `break` left; false when the run has ended. next()
  // then returns nothing at the end of each epoch: on all ranks at the same step, the one after the epoch's last batch,
  // and no rank has been served anything of the next epoch, which is prefetched meanwhile. A rank that has served its
  // part of the epoch while others have not reuses batches, whatever `mpi.epoch_end` says. In the loop
  // epochs_completed() is the number of the epoch; after it, one more, unless the run was stopped or its steps were
  // done. An evaluation is one epoch. The call before the first next() is collective, and all ranks make it or none
  // does. Throws Error on all ranks if they do not agree on that, and whatever ended the run; also after a next()
  // without a preceding next_epoch().
  [[nodiscard]] bool next_epoch();

  // The stream on which leases are ordered if the trainer does not pass its own.
  [[nodiscard]] StreamView stream() const noexcept;

  // Asks all ranks to stop at the same step, soon. Async-signal-safe; any thread, at any time of the feeder's life,
  // even while restore() or next_epoch() runs. For requests before the feeder exists use Parts::stop.
  void request_stop() noexcept;

  // Where the job is after the steps made so far, for state files and checkpoints: a few kilobytes of text that name
  // the next undelivered batch of every virtual shard (docs/state.md). Equal on all ranks. May be called at any step,
  // also after next() has returned nothing, but not after close(). Collective: all ranks after the same number of
  // steps. Throws Error on all ranks.
  [[nodiscard]] std::string state();
  // Saves state() to a file, atomically: it is written whole or not at all. A thread of rank 0 writes it and no rank
  // waits for the disk: the file is durable once finish_saves(), close() or the destructor has returned, and after the
  // end of the run once save() has. At most one save is being written and one more waits; a newer one for the same file
  // takes the place of the waiting one, while one for another file makes save() wait. Collective. Throws Error with
  // path and cause on all ranks if it failed, or if an earlier save failed and that was not reported yet (this one is
  // then written all the same). The file of a failed save is as it was.
  void save(const std::string& file);
  // Waits until all saves are durable, for programs that then rely on them, for example to publish a checkpoint.
  // Collective. Throws like save(). No effect after close().
  void finish_saves();

  // Resumes a job from its saved state: at its step, in its epochs, with what it had not delivered. There may be more
  // or fewer ranks than then, up to mpi.virtual_shards. With as many, and without hand-over between ranks, the fresh
  // batches of each rank are bit for bit those of a run that never stopped. Collective, before the first next(). Drops
  // what was prefetched and restarts production; Parts::resume avoids that. stream() does not change. Throws
  // ConfigError on all ranks if the file is not a state, or the state of another dataset or configuration: the feeder
  // can then be used as it is. Any other error (no memory, a failing store or device) leaves it closed. Throws Error
  // after the first next() and after close(), whether or not the file exists.
  void restore(const std::string& file);
  // The same, but false when there is no such file.
  bool restore_if_present(const std::string& file);
  // The same from the text of state(), equal on all ranks.
  void restore_state(std::string_view state);

  // Steps made since the run began, including those before it was resumed.
  [[nodiscard]] std::uint64_t steps() const noexcept;
  // next() returned nothing because a stop was requested, before the epochs or steps were done.
  [[nodiscard]] bool was_stopped() const noexcept;
  // Epochs of which the job has served every batch; changes at the same step on every rank.
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept;
  // Batches in an epoch over all ranks.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  // Steps of an epoch in which every step is fresh: the batches of the rank that has the most at first. Equal on all
  // ranks. With mpi.mode = "local" batches may change hands, and an epoch then takes a few steps fewer.
  [[nodiscard]] std::uint64_t steps_per_epoch() const noexcept;
  [[nodiscard]] const Dataset& dataset() const noexcept;
  // The dataset, to pass to a second feeder of the same data without indexing again.
  [[nodiscard]] std::shared_ptr<const Dataset> shared_dataset() const noexcept;
  // What every batch has: "image", "label", then the fields of the dataset in its order (forebay/field.hpp). Boxes are
  // followed by their classes, named NAME.class. Shapes are those of one sample.
  [[nodiscard]] const std::vector<Field>& fields() const noexcept;
  // The number of a field, for Lease::field(). Throws ConfigError that lists the names where there is none of this
  // name.
  [[nodiscard]] std::size_t field_number(std::string_view name) const;
  [[nodiscard]] const Options& options() const noexcept;
  // The sizes of the worker pools and the ring, for a line at start-up.
  [[nodiscard]] std::string describe() const;

  // This rank's figures so far.
  [[nodiscard]] Summary summary() const;
  // Where this rank's time went so far, from the first next() on, and what limits it. May be called after close(), too.
  // Takes locks, so not for every step.
  [[nodiscard]] Profile profile() const;

  // Stops the workers, flushes telemetry, closes the communicator (collective; waits a bounded time for the other
  // ranks: 5 s, or policy.watchdog_s if they are known to make steps that this one does not), and waits until all saves
  // are durable. Leases that are still held stay valid. Idempotent. Throws Error, on rank 0 alone, if a save failed and
  // that was not reported yet; everything is closed even then.
  void close();

 private:
  class Impl;
  [[nodiscard]] Impl& own() const;

  std::shared_ptr<StopRequest> stop_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

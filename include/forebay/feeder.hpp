#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <forebay/communicator.hpp>
#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/lease.hpp>
#include <forebay/options.hpp>
#include <forebay/policy.hpp>
#include <forebay/summary.hpp>
#include <forebay/tensor.hpp>

namespace forebay {

// Parts that a program may bring itself; whatever is left empty is made from the options.
struct Parts {
  std::shared_ptr<const Dataset> dataset = nullptr;  // must be equal on all ranks
  PolicyRegistry policies = PolicyRegistry::builtin();
  // A flag of the program's own, true = stop as by request_stop(); for signal handlers that may run before the feeder
  // exists. Must outlive the feeder.
  const std::atomic<bool>* stop = nullptr;
};

// Feeds a trainer with batches. Reads, decodes and assembles on worker threads of its own; next() never waits for
// them while the policy may reuse a resident batch.
//
// Threads: one thread (the trainer's) constructs, calls next(), summary() and close(); it is the only thread
// that makes MPI calls. request_stop() may be called from any thread and from a signal handler.
// Errors: the constructor throws ConfigError and Error on all ranks alike; next() throws Error with path and cause,
// on all ranks at the same step.
class Feeder {
 public:
  // One rank on its own.
  explicit Feeder(Options options, Parts parts = {});
  // One of several ranks; collective. Duplicates the communicator.
  Feeder(Options options, const Communicator& communicator, Parts parts = {});
  Feeder(Feeder&&) noexcept;
  Feeder& operator=(Feeder&&) noexcept;
  ~Feeder();  // close()

  // The next step's batch, fresh or reused, or nothing at the end (of the epochs, the steps, or after a stop).
  // All ranks get the same number of batches. While a batch is ready it neither allocates, nor locks, nor enters
  // the kernel (unless a parked producer must be woken; MPI calls of several ranks aside).
  // Throws Error when more than `queue.max_leases` leases are held, and whatever ended the run on any rank.
  [[nodiscard]] std::optional<Lease> next(StreamView stream = {});

  // The stream that leases are ordered on when the trainer has none of its own.
  [[nodiscard]] StreamView stream() const noexcept;

  // Asks all ranks to stop at one step soon. Async-signal-safe; any thread.
  void request_stop() noexcept;

  // Epochs that all ranks have served completely; changes at the same step on every rank.
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept;
  // Batches in an epoch over all ranks.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  [[nodiscard]] const Dataset& dataset() const noexcept;
  // The dataset to hand to a second feeder of the same data, without indexing again.
  [[nodiscard]] std::shared_ptr<const Dataset> shared_dataset() const noexcept;
  [[nodiscard]] const Options& options() const noexcept;
  // What the workers and the ring were sized to, for a start-up line.
  [[nodiscard]] std::string describe() const;

  // This rank's figures so far.
  [[nodiscard]] Summary summary() const;

  // Stops the workers, writes what telemetry still holds, and closes the communicator (collective, waits a bounded
  // time for the other ranks). Leases that are still held stay valid. Idempotent.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

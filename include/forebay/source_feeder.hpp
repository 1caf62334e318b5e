#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <forebay/communicator.hpp>
#include <forebay/feeder.hpp>
#include <forebay/field.hpp>
#include <forebay/lease.hpp>
#include <forebay/options.hpp>
#include <forebay/summary.hpp>

namespace forebay {

// A source of whole batches that the program makes itself, such as another loader, a simulator or a stream. One thread
// at a time calls it: the trainer's calls begin_epoch() and restore(), while no batch is being made; a reader thread
// calls the others.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The fields of every batch: of kind array, with the shape of a whole batch. The same at every call and on all ranks.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept = 0;
  // Begins an epoch, counted from 0; after restore(), the restored epoch, which is then continued.
  virtual void begin_epoch(std::uint64_t epoch) = 0;
  // Advances to the next batch; false at the end of the epoch. May wait. SourceFeeder::next() rethrows what it throws
  // in place of the batch, and the run ends. With several ranks the run also ends if a source never had a batch: its
  // rank has none to reuse until the others are done.
  [[nodiscard]] virtual bool next() = 0;
  // Writes a field of the current batch, by its number in fields(), directly to its destination in the ring. Called
  // once per field, after next(); may throw as next() may.
  virtual void fill(std::size_t field, std::span<std::byte> to) = 0;
  // The position of the source after the current batch, or after the end of an epoch, as arbitrary bytes for restore().
  // Empty: unknown. A resumed run then restarts the epoch and skips the batches already served, so the order must be
  // the same. With several ranks the last batch served is repeated and skipped in any case.
  [[nodiscard]] virtual std::string state() { return {}; }
  virtual void restore(std::string_view /*state*/) {}
};

// A feeder of such batches. They go through the ring like those of a dataset, so policies, telemetry, the watchdog and
// the agreement of ranks are the same. The number of batches in an epoch need not be known in advance: it ends on all
// ranks after the same step, once every source is exhausted; a rank whose source ends earlier reuses batches until
// then.
//
//   const auto batches = forebay::make_source_feeder(options, *forebay::solo_communicator(), source);
//   while (batches->next_epoch()) {
//     while (auto batch = batches->next()) train_step(batch->field("x"));
//   }
//
// Only the options that do not concern images and files apply: policy, queue, device, telemetry, mpi and run. With
// run.eval each batch is served once, in one epoch; a rank that is done earlier has batches that are not is_fresh().
// Threads and errors are as for Feeder. Fields have the shape [1, ...]: to the ring, a batch is a single sample.
class SourceFeeder {
 public:
  virtual ~SourceFeeder() = default;  // close()

  // Begins an epoch, or continues the one that a resumed run or a `break` left; false after the last one
  // (run.epochs, run.steps) and after a stop. Throws what begin_epoch() throws; other ranks as with next().
  [[nodiscard]] virtual bool next_epoch() = 0;
  // The next step's batch, fresh or reused, or nothing at the end of the epoch. Collective with several ranks. Throws
  // what the source threw; the other ranks then throw Error with rank and cause, at one of their next steps.
  [[nodiscard]] virtual std::optional<Lease> next(StreamView stream = {}) = 0;
  // The position of the source as of the last batch served here, and the numbers of steps and batches, which a resumed
  // run continues; a stop or an error does not end the epoch. It is for this rank alone: it resumes on the same rank in
  // a job of the same size, and all ranks must resume from states of the same step. May be called after close(), too.
  [[nodiscard]] virtual std::string state() const = 0;
  // The figures of this rank so far; a batch counts as one image. May be called after close(), too.
  [[nodiscard]] virtual Summary summary() const = 0;
  // The feeder behind it. It, its files, and epoch() and batch() of leases count the end of an epoch as a fresh batch,
  // and know no epochs.
  [[nodiscard]] virtual const Feeder& feeder() const noexcept = 0;
  // Like Feeder::request_stop().
  virtual void request_stop() noexcept = 0;
  // Stops the threads as soon as the batch being made is complete. Collective. Leases stay valid. Idempotent.
  virtual void close() = 0;
};

// Begins the source's first epoch and waits for its first batch. `state`: a result of state(), from which the run
// continues; empty: from the beginning. `parts`: the dataset and `resume` are ignored. Collective; throws ConfigError
// and Error on all ranks alike, also if their states are from different epochs, other ranks or another number of ranks.
[[nodiscard]] std::unique_ptr<SourceFeeder> make_source_feeder(Options options, const Communicator& communicator,
                                                               std::shared_ptr<BatchSource> source, Parts parts = {},
                                                               std::string_view state = {});

}  // namespace forebay

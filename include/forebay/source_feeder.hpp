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

namespace forebay {

// Whole batches that the program makes itself: of another loader, a simulator, a stream. One thread at a time calls it:
// begin_epoch() and restore() on the trainer's, when no batch is being made, the others on a reading thread.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // What every batch has: fields of kind array, with the shape of a whole batch. The same at every call and on all
  // ranks.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept = 0;
  // Begins an epoch, counted from 0; after restore() the one that it is in the middle of.
  virtual void begin_epoch(std::uint64_t epoch) = 0;
  // Goes to the next batch; false at the end of the epoch. May wait. What it throws leaves SourceFeeder::next() in the
  // place of the batch, and ends the run. So does, where there are several ranks, a source that never had a batch: its
  // rank has none to serve again until the others are done.
  [[nodiscard]] virtual bool next() = 0;
  // Writes a field of this batch, by its number in fields(), straight to where it is to be decoded. Once for each
  // field, after next(); throws as next() does.
  virtual void fill(std::size_t field, std::span<std::byte> to) = 0;
  // Where the source is behind this batch, or behind the end of an epoch, for restore(); any bytes. Empty: it cannot
  // say. A resumed run then begins the epoch again, and as many batches are passed over: its order must be the same.
  // With several ranks the last batch that was served is passed over in any case.
  [[nodiscard]] virtual std::string state() { return {}; }
  virtual void restore(std::string_view /*state*/) {}
};

// A feeder of such batches. They stand in the ring as those of a dataset do, so that policies, telemetry, the watchdog
// and the agreement of ranks are the same. The batches of an epoch need not be counted before: it ends on all ranks
// after the same step, once each has served its source; one whose source ends earlier serves batches again until then.
//
//   const auto batches = forebay::make_source_feeder(options, *forebay::solo_communicator(), source);
//   while (batches->next_epoch()) {
//     while (auto batch = batches->next()) train_step(batch->field("x"));
//   }
//
// Of the options those count that are not about images and files: policy, queue, device, telemetry, mpi and run.
// Threads and errors are as Feeder has them. A field has the shape [1, ...]: a batch is one sample of the ring.
class SourceFeeder {
 public:
  virtual ~SourceFeeder() = default;  // close()

  // Begins an epoch, or continues the one that a resumed run or a `break` left; false after the last one
  // (run.epochs, run.steps) and after a stop. Throws what begin_epoch() throws; other ranks as with next().
  [[nodiscard]] virtual bool next_epoch() = 0;
  // The next step's batch, fresh or reused, or nothing at the end of the epoch. Collective with several ranks. Throws
  // what the source threw; other ranks then throw Error with rank and cause, at one of their next steps.
  [[nodiscard]] virtual std::optional<Lease> next(StreamView stream = {}) = 0;
  // Where the source is as of the last batch that was served here, and how many were in this epoch, which a stop or an
  // error does not end. Of this rank alone: it resumes on the rank of this number in a job of as many, and all ranks
  // need theirs of the same step. May be called after close(), too.
  [[nodiscard]] virtual std::string state() const = 0;
  // For figures. Its epochs are not those of the source.
  [[nodiscard]] virtual const Feeder& feeder() const noexcept = 0;
  // As Feeder::request_stop().
  virtual void request_stop() noexcept = 0;
  // Stops the threads, once the batch that is being made has come. Collective. Leases stay valid. Idempotent.
  virtual void close() = 0;
};

// Begins the source's first epoch and waits for its first batch. `state`: of state(), where the run is to continue.
// `parts`: its dataset and its `resume` are not used. Collective; throws ConfigError and Error on all ranks alike, also
// where their states are of different epochs, of other ranks or of another number of ranks.
[[nodiscard]] std::unique_ptr<SourceFeeder> make_source_feeder(Options options, const Communicator& communicator,
                                                               std::shared_ptr<BatchSource> source, Parts parts = {},
                                                               std::string_view state = {});

}  // namespace forebay

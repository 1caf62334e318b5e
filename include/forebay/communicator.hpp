#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// Memory that the ranks of one node share; zero at first.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
};

// What one rank said to all the others.
struct Word {
  std::uint32_t rank = 0;
  std::string text;
};

// What Forebay needs from the ranks of a job. Without MPI one rank is made by solo_communicator(); with MPI
// forebay/mpi.hpp makes one out of an MPI_Comm. Every member is called by one thread only, the one that calls
// Feeder::next() (MPI_THREAD_FUNNELED). Calls marked collective must be made by all ranks in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;

  // Collective: a communicator of the same ranks whose traffic cannot meet this one's.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate() const = 0;

  // Starts a non-blocking reduction over all ranks, element by element, in place: the last `minima` values take the
  // least that any rank gave, those before them are added up. `values` must stay valid and untouched until test() said
  // true or the communicator was closed. Channels are independent places for one operation each.
  // Collective in posting order, with the same sizes on all ranks. Never blocks.
  // REQUIRES: channel < kChannels and no operation open in it; minima <= values.size().
  virtual void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima = 0) = 0;
  // True when the channel's operation is complete (or none is open). Never blocks.
  [[nodiscard]] virtual bool test(std::size_t channel) = 0;

  // Collective and blocking; used at the start only.
  [[nodiscard]] virtual std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) = 0;
  // Every rank's text, by rank, on every rank. Collective and blocking; used at the start, for states and at an agreed
  // end.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  // Calls of all_gather() that this rank has completed.
  [[nodiscard]] virtual std::uint64_t gathers() const noexcept = 0;
  // `hook` is called again and again while all_gather() or close() waits for other ranks. That of all_gather() it may
  // end by throwing; no later one can then be made. Empty = none.
  virtual void while_waiting(std::function<void()> hook) = 0;
  // Memory shared by the ranks of this node.
  [[nodiscard]] virtual std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) = 0;

  // Says a few words to every other rank, without waiting for them: what must reach a rank that is not where it could
  // agree. A rank's words arrive in the order in which it said them.
  virtual void tell(std::string_view text) = 0;
  // The next word of another rank that has arrived, or nothing. Never blocks; also lets pending operations progress.
  [[nodiscard]] virtual std::optional<Word> listen() = 0;

  // Keeps the cause of a failure (the first one), so that it can be printed before the job is aborted. The text names
  // the failing rank itself.
  virtual void note_failure(std::string_view cause) = 0;
  // The last resort where other ranks wait for this one and cannot be told: ends the job with this cause, if the
  // program left that to Forebay (MpiSession), and else returns.
  virtual void abort(std::string_view cause) = 0;
  // The same at the end of the program, which must not wait there for ranks that do not come.
  virtual void abort_at_end(std::string_view cause) = 0;

  // Collective: ends all open operations and receives outstanding words. Bounded: returns false when the other ranks
  // did not come within `timeout_s`, and may then be called again. Nothing else of the communicator may be used
  // afterwards, but listen() in the hook of while_waiting().
  virtual bool close(double timeout_s) = 0;

  static constexpr std::size_t kChannels = 17;
};

// One rank on its own: sums are complete at once, nothing blocks. Given to a feeder it says that this process is a job
// of its own, whoever started it; then each needs a telemetry.dir of its own.
[[nodiscard]] std::unique_ptr<Communicator> solo_communicator();

}  // namespace forebay

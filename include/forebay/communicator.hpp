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

// Memory shared by the ranks of one node, initially zero.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
};

// A message that one rank sent to all others.
struct Notice {
  std::uint32_t rank = 0;
  std::string text;
};

// The communication that Forebay needs between the ranks of a job. solo_communicator() makes one for a single rank
// without MPI, forebay/mpi.hpp makes one from an MPI_Comm. All members are called from one thread, the one that calls
// Feeder::next() (MPI_THREAD_FUNNELED). All ranks must make the calls marked collective in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;

  // Collective: a communicator over the same ranks whose traffic is kept apart from this one's.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate() const = 0;

  // Starts a non-blocking reduction over all ranks, element by element, in place: the last `minima` values become the
  // minimum over the ranks, those before them the sum. `values` must stay valid and untouched until test() has returned
  // true or the communicator is closed. Channels are independent, with at most one open operation each. Collective: all
  // ranks post in the same order, with the same sizes. Never blocks. REQUIRES: channel < kChannels and no operation
  // open in it; minima <= values.size().
  virtual void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima = 0) = 0;
  // True once the channel's operation has completed, or if none is open. Never blocks.
  [[nodiscard]] virtual bool test(std::size_t channel) = 0;

  // The root's bytes, on every rank. Collective and blocking; used only at start-up.
  [[nodiscard]] virtual std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) = 0;
  // The texts of all ranks, in rank order. Collective and blocking; used at start-up, for states and at an agreed end.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  // The number of all_gather() calls that this rank has completed.
  [[nodiscard]] virtual std::uint64_t gathers() const noexcept = 0;
  // `hook` is called repeatedly while all_gather() or close() waits for other ranks. It may end an all_gather() by
  // throwing, after which no further one is possible. Empty: no hook.
  virtual void while_waiting(std::function<void()> hook) = 0;
  // Collective and blocking: memory shared by the ranks of this node.
  [[nodiscard]] virtual std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) = 0;

  // Sends a short message to every other rank without waiting, to reach ranks that are not in a collective call.
  // Messages from one rank arrive in the order in which it sent them.
  virtual void tell(std::string_view text) = 0;
  // The next message that has arrived from another rank, or nothing. Never blocks; also lets pending operations
  // progress.
  [[nodiscard]] virtual std::optional<Notice> listen() = 0;

  // Records the cause of a failure, so that it can be printed before the job is aborted; only the first is kept. The
  // text itself names the failing rank.
  virtual void note_failure(std::string_view cause) = 0;
  // The last resort when other ranks are waiting for this one and cannot be told: ends the job with this cause if the
  // program leaves that to Forebay (MpiSession), otherwise returns.
  virtual void abort(std::string_view cause) = 0;
  // Like abort(), but deferred to the end of the program, which must not wait there for ranks that never arrive.
  virtual void abort_at_end(std::string_view cause) = 0;

  // Collective: ends all open operations and receives outstanding messages. Returns false if the other ranks do not
  // arrive within `timeout_s`; it may then be called again. Afterwards no other member may be used, except listen() in
  // the hook of while_waiting().
  virtual bool close(double timeout_s) = 0;

  static constexpr std::size_t kChannels = 17;
};

// A single rank: reductions complete at once and nothing blocks. Passing it to a feeder declares this process a
// separate job, even if a launcher started several; each then needs its own telemetry.dir.
[[nodiscard]] std::unique_ptr<Communicator> solo_communicator();

}  // namespace forebay

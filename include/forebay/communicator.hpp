#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  // true or the communicator was closed. Lanes are independent places for one operation each.
  // Collective in posting order, with the same sizes on all ranks. Never blocks.
  // REQUIRES: lane < kLanes and no operation open in it; minima <= values.size().
  virtual void start_reduction(std::size_t lane, std::span<std::int64_t> values, std::size_t minima = 0) = 0;
  // True when the lane's operation is complete (or none is open). Never blocks.
  [[nodiscard]] virtual bool test(std::size_t lane) = 0;

  // Collective and blocking; used at the start and at an agreed end only.
  [[nodiscard]] virtual std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) = 0;
  // Every rank's text, by rank, on every rank.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  // Memory shared by the ranks of this node.
  [[nodiscard]] virtual std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) = 0;

  // Tells the other ranks, without waiting for them, that this one wants to stop: it only breaks their waits, the
  // agreement itself travels in the reductions. At most once per communicator.
  virtual void alert() = 0;
  // True once another rank's alert has arrived. Never blocks; also lets pending operations progress.
  [[nodiscard]] virtual bool alerted() = 0;

  // Keeps the cause of a failure (the first one), so that it can be printed before the job is aborted. The text names
  // the failing rank itself.
  virtual void note_failure(std::string_view cause) = 0;

  // Collective: ends all open operations and receives outstanding alerts. Bounded: returns false when the other
  // ranks did not come within `timeout_s`; nothing of the communicator may be used afterwards.
  virtual bool close(double timeout_s) = 0;

  static constexpr std::size_t kLanes = 17;
};

// One rank on its own: sums are complete at once, nothing blocks. Given to a feeder it says that this process is a job
// of its own, whoever started it; then each needs a telemetry.dir of its own.
[[nodiscard]] std::unique_ptr<Communicator> solo_communicator();

}  // namespace forebay

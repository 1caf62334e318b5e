#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace forebay::ring {

// Tracks where the uses of a piece of device memory end on the trainer's streams, so that it is overwritten only after
// them. One event covers all uses: a stream that ends a use first waits for the event and then records it again,
// because a new record replaces the earlier one. It waits even if it was the last to record the event: an equal handle
// may belong to another stream, created after that one was destroyed.
class StreamUses {
 public:
  // Throws Error when the device has no event left.
  explicit StreamUses(device::Device& device) : device_(device), event_(device.make_event()) {}

  // Ends a use at the stream's current position. Any thread; threads that end uses concurrently take turns. Throws
  // Error.
  void end(StreamView stream);
  // Orders work queued on `stream` from now on after the uses that have ended. REQUIRES: no use ends concurrently, and
  // the caller has acquired what the thread of the last one did.
  void put_after(StreamView stream);

 private:
  device::Device& device_;
  device::DeviceEvent event_;
  bool used_ = false;
  std::atomic_flag busy_;
};

// Host memory in which batches are assembled before a device copies them into their slots.
//
// Invariants
//  S1  Turn t is assembled in place t mod size, where size is the ring's capacity. Turn t + size is claimed only after
//      turn t was taken (ring invariant R1), so after it was published, which is after it was copied: no thread writes
//      to a place that is still to be copied.
//  S2  A batch is published once the host has seen its copy complete, and the drawing of its first views after it.
//      Whatever a stream is later told to do with the slot happens after both, without waiting for their event.
//  S3  The copy into a slot waits, on its stream, for all uses of the previous batch: their ends were recorded on their
//      streams before the slot was given back (Lease::release(), ring invariant R5). Renderings read what was drawn
//      for the slot and are such uses.
class Staging {
 public:
  // Throws Error if there is no memory.
  Staging(device::Device& device, std::size_t batch_bytes, std::uint32_t batches);

  // Where turn t is assembled. Any thread.
  [[nodiscard]] std::byte* place(std::uint64_t turn) noexcept { return base_ + index(turn) * batch_bytes_; }

  // --- the thread that copies ---
  // Queues the copy of a turn on `stream`, after the uses of its destination. Throws Error.
  void copy(std::uint64_t turn, std::byte* to, StreamUses& uses, StreamView stream);
  // Marks this point of the stream as the completion of the turn's copy: call it once everything that belongs to the
  // copy is queued. Throws Error.
  void mark(std::uint64_t turn, StreamView stream) { device_.record(copied_[index(turn)], stream); }
  [[nodiscard]] bool is_copied(std::uint64_t turn) { return device_.is_complete(copied_[index(turn)]); }
  void wait_copied(std::uint64_t turn) { device_.synchronize(copied_[index(turn)]); }

  [[nodiscard]] std::size_t bytes() const noexcept { return batch_bytes_ * copied_.size(); }
  [[nodiscard]] const device::Arena& arena() const noexcept { return *arena_; }

 private:
  [[nodiscard]] std::size_t index(std::uint64_t turn) const noexcept { return turn % copied_.size(); }

  device::Device& device_;
  std::size_t batch_bytes_;
  std::unique_ptr<device::Arena> arena_;
  std::byte* base_;
  std::vector<device::DeviceEvent> copied_;
};

// The tensors into which batches of canvases are rendered, one for each lease that may be held. A lease gets the lowest
// free one, so a trainer that holds one lease at a time sees the same address for the whole run.
class OutputTensors {
 public:
  // Throws Error if there is no memory.
  OutputTensors(device::Device& device, std::size_t bytes, std::uint32_t count);

  struct Taken {
    std::uint32_t output = 0;
    bool is_shared = false;  // with a lease that already shows something
  };

  // Takes a free one. If all are taken, because more leases are held than permitted, one of them is shared. Consumer
  // thread.
  [[nodiscard]] Taken take() noexcept;
  // Orders work queued on `stream` from now on after the earlier uses of a taken tensor. Consumer thread. Throws Error.
  void put_after_uses(std::uint32_t output, StreamView stream) { outputs_[output]->uses.put_after(stream); }
  // Ends a use of a tensor at the stream's current position; after the last use it is free, even if this throws Error.
  // Any thread.
  void end(std::uint32_t output, StreamView stream);

  [[nodiscard]] std::byte* at(std::uint32_t output) noexcept { return base_ + output * bytes_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ * outputs_.size(); }

 private:
  struct OutputTensor {
    explicit OutputTensor(device::Device& device) : uses(device) {}

    StreamUses uses;
    std::atomic<std::uint32_t> uses_held{0};
  };

  std::size_t bytes_;
  std::unique_ptr<device::Arena> arena_;
  std::byte* base_;
  std::vector<std::unique_ptr<OutputTensor>> outputs_;
};

}  // namespace forebay::ring

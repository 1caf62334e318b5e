#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "stream_uses.hpp"

namespace forebay::ring {

// Host memory in which batches are assembled before a device copies them into their slots.
//
// Invariants
//  S1  Turn t is assembled in place t mod size, where size is the ring's capacity. Turn t + size is claimed only after
//      turn t was taken (ring invariant R1), so after it was published, which is after it was copied: no thread writes
//      to a place that is still to be copied.
//  S2  A batch is published once the host has seen its copy complete, and the drawing of its first views behind it.
//      Whatever a stream is later told to do with the slot happens after both, without waiting for their event.
//  S3  The copy into a slot waits, on its stream, for all uses of the previous batch: their ends were recorded on their
//      streams before the slot was given back (Lease::release(), ring invariant R5). Renderings read what was drawn
//      for the slot and are such uses.
class Staging {
 public:
  // Throws Error when there is no memory.
  Staging(device::Device& device, std::size_t batch_bytes, std::uint32_t batches);

  // Where turn t is assembled. Any thread.
  [[nodiscard]] std::byte* place(std::uint64_t turn) noexcept { return base_ + index(turn) * batch_bytes_; }

  // --- the thread that copies ---
  // Queues the copy of a turn on `stream`, after the uses of its destination. Throws Error.
  void copy(std::uint64_t turn, std::byte* to, StreamUses& uses, StreamView stream);
  // The turn is copied when the stream has come so far: call once what goes with the copy is queued. Throws Error.
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

}  // namespace forebay::ring

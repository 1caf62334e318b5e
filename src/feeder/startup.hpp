#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "run.hpp"

namespace forebay::feeder {

// What a feeder takes over from the one in whose place it comes: trainers hold on to the stream.
struct Handover {
  job::SavedState saved;
  std::shared_ptr<device::Device> device;
  StreamView stream;
  ranks::Loop loop = ranks::Loop::unknown;
};

// Makes the parts of a run from the options, and waits for its first batch. `before`: the job resumes from that
// one's state; else from parts.resume, if there is such a file. Collective; throws ConfigError and Error on all ranks
// alike.
[[nodiscard]] RunOwner start_run(Options options, std::unique_ptr<Communicator> communicator, Parts parts,
                                 std::shared_ptr<StopRequest> stop, std::optional<Handover> before = std::nullopt);

// Bytes of a batch in the queue. Throws ConfigError for fields that an operation or the transform cannot move.
// REQUIRES: options, operations and safe_dataset are set
[[nodiscard]] std::size_t slot_bytes(const Run& run);

// Makes run.store, run.capacity and run.fields: room for as many batches as the queue may hold, on the run's device,
// with a renderer if batches are rendered when they are taken. On the host a capacity of "auto" begins small, and ends
// where half of the memory that is free now would be taken. Warns on the run's console when memory will be short.
// Only here shows that a GPU has no room, or that this build has no kernels for it: if run.may_leave_device, run.device
// and run.stream become the host's then, with a warning. Throws Error when the memory is not there.
// REQUIRES: options, operations, safe_dataset, queue, device, node and console are set
void make_store(Run& run);

}  // namespace forebay::feeder

#pragma once

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

}  // namespace forebay::feeder

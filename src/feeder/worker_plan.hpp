#pragma once

#include <cstdint>
#include <string>

#include <forebay/options.hpp>

namespace forebay {

// How many worker threads a rank starts.
struct WorkerPlan {
  unsigned io = 1;
  unsigned decode = 1;
  std::string reason;  // how "auto" came to these numbers, for the start-up line
};

// "auto" decoders: the cores this rank may use less one for the trainer, at least one. Ranks that are not bound to
// cores share them: each counts an equal part. "auto" readers: they mostly wait for storage, so four per decoder,
// between 8 and 32.
[[nodiscard]] WorkerPlan plan_workers(const WorkerOptions& options, std::uint32_t ranks_on_node);

}  // namespace forebay

#pragma once

#include <cstdint>
#include <string>

#include <forebay/options.hpp>

namespace forebay {

struct WorkerCounts {
  unsigned io = 1;
  unsigned decode = 1;

  friend bool operator==(const WorkerCounts&, const WorkerCounts&) = default;
};

// How many worker threads a rank starts with, and how many there may be. A number that the options give is both.
struct WorkerPlan {
  WorkerCounts first;
  WorkerCounts most;
  unsigned cores = 1;  // that this rank may use
  std::string reason;  // where these numbers come from, for the start-up line

  [[nodiscard]] bool tunes() const noexcept { return first != most; }
};

// "8 readers, 1 decoder".
[[nodiscard]] std::string describe(const WorkerCounts& counts);
// The same with where it comes from, and what it may become.
[[nodiscard]] std::string describe(const WorkerPlan& plan);

// "auto" decoders: the cores this rank may use less one for the trainer, at least one; all of them when the trainer
// turns out to leave its core idle. Ranks that are not bound to cores share them: each counts an equal part.
// "auto" readers: they mostly wait for storage, so eight per decoder, between 16 and 64, to begin with.
[[nodiscard]] WorkerPlan plan_workers(const WorkerOptions& options, std::uint32_t ranks_on_node);

}  // namespace forebay

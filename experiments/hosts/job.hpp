#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "once_case.hpp"

// The job that the hosts run: in its first part something happens to a host, the second resumes from the last state
// that was saved, and runs to its end.
namespace forebay::experiments {

struct JobSettings {
  std::filesystem::path folder;   // "data": each host's own; "shared": what all see
  std::uint32_t ranks = 2;        // of the first part
  std::uint32_t ranks_after = 2;  // of the second
  std::uint64_t epochs = 4;       // of 250 batches of four samples
  std::uint64_t save_every = 10;  // steps
  double step_ms = 10;            // of the emulated trainer
  double watchdog_s = 60;
  bool in_lockstep = false;
  bool all_reduces = false;  // the trainer has a collective of its own in each step
  std::uint32_t part = 0;    // 0 or 1

  [[nodiscard]] std::filesystem::path data() const { return folder / "data"; }
  [[nodiscard]] std::filesystem::path state() const { return folder / "shared" / "feed.state"; }
  // What a rank of a part saw: a line for each step, and how the part ended for it.
  [[nodiscard]] std::filesystem::path steps_seen(std::uint32_t of_part, std::uint32_t rank) const;
  [[nodiscard]] std::filesystem::path end_seen(std::uint32_t of_part, std::uint32_t rank) const;
};

// Throws std::invalid_argument.
[[nodiscard]] JobSettings parse_settings(int argc, char** argv);

[[nodiscard]] testing::OnceCase job_of(const JobSettings& settings);

// Whether each sample was served once: prints a line of JSON, and returns the program's exit code.
int audit(const JobSettings& settings);

}  // namespace forebay::experiments

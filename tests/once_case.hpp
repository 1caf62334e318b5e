#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <forebay/options.hpp>

// Random jobs for the exactly-once test: what a job is and how it is stopped and resumed, as a function of a seed.
// Used by tests/mpi_resume.cpp and experiments/exactly_once.
namespace forebay::testing {

enum class StopBy : std::uint8_t {
  end,         // the job runs to its end
  request,     // request_stop() on one rank
  cease,       // all ranks call next() no more
  checkpoint,  // all ranks save, go on for a while and are gone: what was served after the save is served again
};
enum class ResumeBy : std::uint8_t { parts, restore, restore_if_present, text };

// What one process of each rank does of a job.
struct Part {
  std::uint32_t ranks = 1;
  std::uint32_t first = 0;            // rank 0 is this rank of the world; the others follow it, around the world's end
  bool without_mpi = false;           // one rank that has no communicator
  bool by_epochs = false;             // the trainer's loop is one over epochs
  bool holds_last = false;            // the trainer keeps each lease until it has the next
  bool is_logged = false;             // its steps and decisions are recorded, and read back
  ResumeBy resume = ResumeBy::parts;  // how it resumes from the part before
  StopBy stop = StopBy::end;
  std::uint64_t steps = 0;           // made before the stop
  std::uint64_t lost_steps = 0;      // checkpoint: made after the save
  std::uint32_t stopper = 0;         // request: the rank that asks
  std::vector<std::uint64_t> looks;  // steps before which the state is asked for, ascending
  // By rank: sleep of the reader per sample and of the trainer per step.
  std::vector<double> read_us;
  std::vector<double> step_us;
  Options options;

  [[nodiscard]] bool hands_over() const noexcept { return ranks > 1 && options.mpi.mode == MpiMode::local; }
};

struct OnceCase {
  std::uint64_t number = 0;
  std::uint64_t samples = 1;
  std::string container = {};      // the samples lie in this kind of every_container(); "" = in memory
  std::vector<std::uint64_t> bad;  // ids of samples that cannot be read, ascending
  std::vector<Part> parts;
};

// What the cases are drawn for.
struct OnceLimits {
  std::uint32_t world = 4;         // ranks that there are
  std::uint64_t samples = 50'000;  // of a dataset
  std::uint64_t served = 60'000;   // samples over all epochs
  double sleep_ms = 500;           // of the slowest rank's readers in a job without hand-over
};

// A function of its arguments.
[[nodiscard]] OnceCase draw_case(std::uint64_t seed, std::uint64_t number, const OnceLimits& limits);

// The same job with dataset.order = "shards".
[[nodiscard]] OnceCase in_windows(OnceCase job);

// The same job on a container with as many samples, of a kind that is drawn, with or without fields, and sometimes with
// room for few of its bytes. As it is where there are more than `kMostInContainer` samples.
inline constexpr std::uint64_t kMostInContainer = 2500;
[[nodiscard]] OnceCase in_container(OnceCase job);

// A job of any of these ways, a function of its number.
[[nodiscard]] OnceCase in_some_way(OnceCase job);

// A job of one kind that random ones seldom are: 1,024 shards of which three slow ranks give most away over several
// epochs, so that its state is as large as any. REQUIRES: limits.world >= 2.
[[nodiscard]] OnceCase large_state_case(std::uint64_t number, const OnceLimits& limits);

// In one line.
[[nodiscard]] std::string describe(const OnceCase& job);

}  // namespace forebay::testing

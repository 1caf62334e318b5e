#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forebay {

// The arguments of `forebay feed`.
struct FeedArguments {
  std::string config;
  std::vector<std::string> overrides;  // --set, and what the shortcut flags set
  std::string summary;                 // --summary FILE
  std::string log_ids;                 // --log-ids DIR
  std::string state;                   // --state FILE
  std::int64_t save_every = 0;         // --save-every N, 0 = at the end only
  bool stop_on_signal = false;         // --stop-on-signal
  int stop_exit_code = 0;              // --stop-exit-code C
  bool quiet = false;
  bool profile = false;  // --profile
  std::string trace;     // --trace FILE
  double trace_s = 10;   // --trace-seconds S
};

// Runs the feeder against an emulated trainer, as one rank or as one of an MPI job, and prints a summary on rank 0.
// SIGTERM and SIGINT (and SIGUSR1 with --stop-on-signal) end the run on all ranks at the same step, with its state
// saved and its summary printed. Returns the exit code; throws ConfigError and Error.
[[nodiscard]] int feed(const FeedArguments& arguments, int& argc, char**& argv);

}  // namespace forebay

#pragma once

#include <string>
#include <vector>

namespace forebay {

// The arguments of `forebay feed`.
struct FeedArguments {
  std::string config;
  std::vector<std::string> overrides;  // --set, and what the shorter flags stand for
  std::string summary;                 // --summary FILE
  std::string log_ids;                 // --log-ids DIR
  bool quiet = false;
};

// Runs the feeder against an emulated trainer, as one rank or as all ranks of mpirun, and prints a summary on rank 0.
// SIGTERM and SIGINT end the run on all ranks at the same step, with the summary. Returns the exit code; throws
// ConfigError and Error.
[[nodiscard]] int feed(const FeedArguments& arguments, int& argc, char**& argv);

}  // namespace forebay

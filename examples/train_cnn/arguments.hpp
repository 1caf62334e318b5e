#pragma once

#include <string>
#include <variant>
#include <vector>

namespace train_cnn {

struct Arguments {
  std::string config;                  // Forebay's configuration file
  std::vector<std::string> overrides;  // "section.key=value"
  std::string val;                     // held-out data; "" = none
  std::string summary;                 // JSON file to write; "" = none
  std::string checkpoint;              // file to go on from and to save to; "" = none
  double lr = 0.05;                    // at the start; it falls to 0 at the end of the run
  double momentum = 0.9;
  double wall_seconds = 0;  // > 0: train this long, evaluations not counted, and ignore the configured end
  int curve = 0;            // > 0: evaluate the weights of so many times spread over the run, once it is over
  double step_ms = 0;       // emulated accelerator: a step takes at least this long
};

// The arguments, or the exit code of a program that should end here (--help, or wrong usage).
// `print`: this rank is the one that says so.
[[nodiscard]] std::variant<Arguments, int> parse(int argc, char** argv, bool print);

}  // namespace train_cnn

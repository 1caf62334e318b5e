#pragma once

#include <string>
#include <vector>

#include "row.hpp"

namespace forebay::gpu_check {

// A check by its name on the command line.
struct Check {
  const char* name;
  Row (*run)(const Setup& setup);
};

// All of them, in the order of the table.
[[nodiscard]] const std::vector<Check>& checks();

// Runs those that are named (all when none is) and prints a line for each as soon as it is known; setup.json is written
// anew after each. A check whose GPU
// fails is a line too. Whether nothing was found to be wrong; a target that was missed is not wrong.
[[nodiscard]] bool print_table(const Setup& setup, const std::vector<std::string>& names);

}  // namespace forebay::gpu_check

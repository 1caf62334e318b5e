#pragma once

#include <string>
#include <vector>

#include <forebay/options.hpp>

#include "produce/worker_plan.hpp"

namespace forebay {

// What is allowed and hardly ever meant, each with what to do about it: normalising 8-bit pixels as if they were 0 to
// 1, and far more threads than this rank has cores for (WorkerPlan::cores).
[[nodiscard]] std::vector<std::string> start_warnings(const Options& options, const WorkerPlan& plan);

}  // namespace forebay

#pragma once

#include <vector>

#include <hwy/highway.h>

namespace forebay::jpeg {

// The kernels that this processor can run, the best first and `scalar` last: plain loops, which run
// anywhere. `set(target, kernels)` replaces the plain kernels with those of one of Highway's
// targets, and leaves them as they are for targets that are not compiled. `one`: a kernel that
// every other target implements. Never destroyed: a feeder's threads may decode while exit() runs.
template <typename Kernels, typename Kernel, typename Set>
[[nodiscard]] const std::vector<Kernels>& kernels_that_run_here(const Kernels& scalar, Kernel Kernels::*one, Set set) {
  auto& all = *new std::vector<Kernels>;
  // The best target has the lowest bit.
  for (auto targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const auto target = targets & -targets;
    Kernels kernels = scalar;
    kernels.name = hwy::TargetName(target);
    set(target, kernels);
    if (kernels.*one != scalar.*one) all.push_back(kernels);
  }
  all.push_back(scalar);
  return all;
}

}  // namespace forebay::jpeg

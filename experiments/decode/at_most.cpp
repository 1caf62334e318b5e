#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <hwy/targets.h>

// Preloaded, has a program do without the better vector instructions of its processor: FOREBAY_AT_MOST=AVX2, or another
// of Highway's names.
namespace {

struct AtMost {
  AtMost() noexcept {
    const char* const name = std::getenv("FOREBAY_AT_MOST");
    if (name == nullptr) return;
    for (auto targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
      const auto target = targets & -targets;
      if (std::string_view(name) != hwy::TargetName(target)) continue;
      hwy::DisableTargets(target - 1);  // the better ones have the lower bits
      return;
    }
    std::fprintf(stderr, "FOREBAY_AT_MOST=%s: this processor has nothing of that name\n", name);
    std::abort();
  }
};

const AtMost at_most;

}  // namespace

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forebay {

// How often batches were served, and how many times in a row.
class UseTally {
 public:
  // A batch left the pool after `uses` serves.
  void retired(std::uint64_t uses) {
    if (uses >= counts_.size()) counts_.resize(uses + 1);
    ++counts_[uses];
    ++batches_;
    squares_ += static_cast<double>(uses) * static_cast<double>(uses);
  }
  // The same batch was served `steps` times in a row.
  void run(std::uint64_t steps) noexcept { longest_run_ = std::max(longest_run_, steps); }

  // The nearest-rank percentile over batches: the smallest u such that at least `share` of them were served at most u
  // times; 0 if there are none.
  [[nodiscard]] std::uint64_t percentile(double share) const noexcept {
    std::uint64_t below = 0;
    for (std::size_t uses = 0; uses < counts_.size(); ++uses) {
      below += counts_[uses];
      if (below > 0 && static_cast<double>(below) >= share * static_cast<double>(batches_)) return uses;
    }
    return 0;
  }
  [[nodiscard]] std::uint64_t max() const noexcept { return counts_.empty() ? 0 : counts_.size() - 1; }
  // Sum of uses^2 over batches.
  [[nodiscard]] double squares() const noexcept { return squares_; }
  [[nodiscard]] std::uint64_t longest_run() const noexcept { return longest_run_; }

 private:
  std::vector<std::uint64_t> counts_;  // [u]: batches served u times
  std::uint64_t batches_ = 0;
  std::uint64_t longest_run_ = 0;
  double squares_ = 0;
};

}  // namespace forebay

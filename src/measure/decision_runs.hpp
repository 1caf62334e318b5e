#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace forebay {

// Which steps were fresh, as lengths of runs: a recording says of a billion steps in a few bytes that they are alike,
// and takes no more memory than that. Not for several threads.
class DecisionRuns {
 public:
  // `steps` more, all fresh or all reused.
  void append(std::uint64_t steps, bool fresh) {
    size_ += steps;
    while (steps > 0) {
      // Runs are fresh and reused in turn, the first one fresh.
      const bool is_same = !lengths_.empty() && (lengths_.size() % 2 == 1) == fresh;
      if (!is_same) {
        if (lengths_.size() % 2 == (fresh ? 1U : 0U)) lengths_.push_back(0);
        lengths_.push_back(0);
      }
      const std::uint64_t part = std::min(steps, kLongest - lengths_.back());
      lengths_.back() += static_cast<std::uint32_t>(part);
      steps -= part;
      if (steps > 0) lengths_.push_back(0);
    }
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  friend bool operator==(const DecisionRuns& a, const DecisionRuns& b) { return a.lengths_ == b.lengths_; }

  // Looks steps up; quick as long as they ascend.
  class Cursor {
   public:
    // REQUIRES: step < runs.size(), and `runs` is the same, unchanged, at every call.
    [[nodiscard]] bool is_fresh(const DecisionRuns& runs, std::uint64_t step) noexcept {
      if (step < begin_) run_ = begin_ = 0;
      for (; step - begin_ >= runs.lengths_[run_]; ++run_) begin_ += runs.lengths_[run_];
      return run_ % 2 == 0;
    }

   private:
    std::size_t run_ = 0;
    std::uint64_t begin_ = 0;  // step that the run begins with
  };

 private:
  static constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();

  std::vector<std::uint32_t> lengths_;
  std::uint64_t size_ = 0;
};

}  // namespace forebay

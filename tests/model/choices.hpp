#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::model {

// Decides whatever an execution leaves open: which thread runs next, which of the stored values a
// load returns, and so on. Option 0 is what a plain scheduler on a plain machine would do; every
// other option is a deviation.
class Choices {
 public:
  virtual ~Choices() = default;
  // Returns 0 to options - 1.
  virtual unsigned pick(unsigned options) = 0;
};

// Goes through all sequences of choices with at most this many deviations, one per execution.
class Systematic final : public Choices {
 public:
  explicit Systematic(unsigned deviations) : most_(deviations) {}

  unsigned pick(unsigned options) override {
    if (options < 2) return 0;
    if (at_ == path_.size()) path_.push_back({.chosen = 0, .options = options});
    Choice& choice = path_[at_++];
    differs_ = differs_ || choice.options != options;
    return choice.chosen;
  }
  // Prepares the next execution. Returns false if there is none.
  bool next() {
    at_ = 0;
    while (!path_.empty()) {
      Choice& last = path_.back();
      const bool is_deviation = last.chosen > 0;
      if (last.chosen + 1 < last.options && (is_deviation || deviations_ < most_)) {
        deviations_ += is_deviation ? 0 : 1;
        ++last.chosen;
        return true;
      }
      deviations_ -= is_deviation ? 1 : 0;
      path_.pop_back();
    }
    return false;
  }
  // The same choices led to a different execution, so the scenario is not deterministic.
  [[nodiscard]] bool differs() const noexcept { return differs_; }

 private:
  struct Choice {
    unsigned chosen;
    unsigned options;
  };

  unsigned most_;
  unsigned deviations_ = 0;
  std::vector<Choice> path_;
  std::size_t at_ = 0;
  bool differs_ = false;
};

// Deviates at random. How often is drawn anew for each execution.
class Walk final : public Choices {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed), rarely_(kRarely[random_.below(std::size(kRarely))]) {}

  unsigned pick(unsigned options) override {
    if (options < 2 || random_.below(rarely_) != 0) return 0;
    return 1 + static_cast<unsigned>(random_.below(options - 1));
  }

 private:
  static constexpr std::uint64_t kRarely[] = {3, 6, 12, 25, 50};

  Random random_;
  std::uint64_t rarely_;
};

}  // namespace forebay::model

#include "window_shuffle.hpp"

#include <algorithm>

#include <forebay/random.hpp>

namespace forebay::order {
namespace {

// Keep these random numbers distinct from each other and from those of a global shuffle.
constexpr std::uint64_t kRunsKey = 0x72756e73;
constexpr std::uint64_t kBeginKey = 0x626567696e;
constexpr std::uint64_t kWindowKey = 0x77696e646f77;

// a * b / c. REQUIRES: the result fits 64 bits.
std::uint64_t scale(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b / c);
}

}  // namespace

// Only the end of the dataset cuts a run short; a window is a whole number of runs.
WindowShuffle::WindowShuffle(std::uint64_t size, std::uint64_t window, std::uint64_t run, std::uint64_t seed) noexcept
    : size_(size),
      seed_(seed),
      run_(std::min({run, window, size})),
      runs_((size - 1) / run_ + 1),
      // Windows differ by at most one run, so none is so small that its batches are hardly mixed.
      windows_(std::clamp<std::uint64_t>((size + window / 2) / window, 1, runs_)) {}

std::uint64_t WindowShuffle::window_of(std::uint64_t position) const noexcept {
  const std::uint64_t run = position / run_;
  // The last window that begins at or before this run.
  return static_cast<std::uint64_t>((static_cast<Wide>(run + 1) * windows_ - 1) / runs_);
}

PositionRange WindowShuffle::window_at(std::uint64_t number) const noexcept {
  return {.begin = scale(number, runs_, windows_) * run_,
          .end = std::min(scale(number + 1, runs_, windows_) * run_, size_)};
}

PositionRange WindowShuffle::window(std::uint64_t position) const noexcept { return window_at(window_of(position)); }

// Three steps: shuffle within the window, permute the runs, and shift by the epoch's starting
// point. The last run may be shorter and keeps its place, because runs of different lengths cannot
// be exchanged.
std::uint64_t WindowShuffle::operator()(std::uint64_t epoch, std::uint64_t position) const noexcept {
  const std::uint64_t number = window_of(position);
  const PositionRange window = window_at(number);
  const Permutation within(window.size(), key64(seed_, epoch, kWindowKey), number);
  const std::uint64_t at = window.begin + within(position - window.begin);
  const std::uint64_t whole = size_ / run_;
  std::uint64_t run = at / run_;
  if (run < whole) run = Permutation(whole, key64(seed_, kRunsKey), epoch)(run);
  // The starting point differs in every epoch, so that the same samples are not always together,
  // nor always last.
  const std::uint64_t begin = Random(key64(seed_, epoch, kBeginKey)).below(size_);
  const std::uint64_t place = run * run_ + at % run_;
  return place >= size_ - begin ? place - (size_ - begin) : place + begin;
}

}  // namespace forebay::order

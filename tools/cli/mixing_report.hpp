#pragma once

#include <cstdint>
#include <string>

#include <forebay/options.hpp>

#include "order/mixing.hpp"

namespace forebay::cli {

// How well the order of a run mixes this many samples, compared with a shuffle of all samples.
// Examines only part of an epoch, so it takes a fraction of a second for any number of samples.
struct MixingReport {
  // REQUIRES: samples is at least 1.
  MixingReport(const DatasetOptions& options, std::uint64_t seed, std::uint64_t samples);

  order::Mixing mixing;
  order::Mixing shuffle;         // of all samples
  double meetings = 0;           // see order::meetings(); 0: the order has no parts
  std::string order;             // in words
  std::uint64_t batch_size = 1;  // at most `samples`
  std::uint64_t run = 1;         // samples within this distance in storage count as neighbours
};

// Two or three lines for people, all but the first indented by `column`.
[[nodiscard]] std::string to_text(const MixingReport& report, std::size_t column);

}  // namespace forebay::cli

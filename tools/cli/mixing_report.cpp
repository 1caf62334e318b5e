// How well the configured order mixes the samples, in words, compared with a true shuffle. Examines
// only some batches, spread over an epoch, so that large datasets take no longer.

#include <algorithm>

#include <spdlog/fmt/fmt.h>
#include <forebay/order.hpp>

#include "index_report.hpp"
#include "output.hpp"

namespace forebay::cli {
namespace {

// How many samples are examined, at least one batch of them. Chosen.
constexpr std::uint64_t kLookedAt = 65'536;  // samples

// The number of nodes of the later job is not known here. It cannot be taken as 1, because one node
// shuffles all samples at once.
std::uint32_t parts_of(const DatasetOptions& options) {
  return options.nodes > 0 ? static_cast<std::uint32_t>(options.nodes) : 2;
}

std::string order_in_words(const DatasetOptions& options) {
  if (!options.shuffle) return "as stored";
  if (options.order == SampleOrder::global) return "all at once";
  if (options.order == SampleOrder::local) {
    return "in " + grouped(parts_of(options)) + " parts, " + fmt::format("{:.3g} % exchanged", 100 * options.exchange);
  }
  return "in windows of " + grouped(static_cast<std::uint64_t>(options.window)) + ", runs of " +
         grouped(static_cast<std::uint64_t>(options.run));
}

}  // namespace

// The same figures for the configured order and, for comparison, for a full shuffle.
MixingReport::MixingReport(const DatasetOptions& options, std::uint64_t seed, std::uint64_t samples)
    : order(order_in_words(options)),
      batch_size(std::min(static_cast<std::uint64_t>(options.batch_size), samples)),
      run(static_cast<std::uint64_t>(options.run)) {
  OrderOptions how{.samples = samples, .batch_size = static_cast<std::uint32_t>(batch_size), .seed = seed};
  const std::uint64_t batches = std::clamp<std::uint64_t>(kLookedAt / batch_size, 1, 256);
  shuffle = order::mixing_of(Order(how), 0, run, batches);
  how.shuffle = options.shuffle;
  how.window = options.order == SampleOrder::shards ? static_cast<std::uint64_t>(options.window) : 0;
  how.run = run;
  if (options.order == SampleOrder::local && options.shuffle) {
    how.parts = parts_of(options);
    how.shards = 1024;  // the default mpi.virtual_shards
    how.exchange = options.exchange;
    meetings = order::meetings(how);
  }
  mixing = order::mixing_of(Order(how), 0, run, batches);
}

std::string to_text(const MixingReport& report) {
  const std::string next_line = "\n" + std::string(kValueColumn, ' ');
  std::string text = fmt::format(
      "{}: of a batch of {}, {:.1f} samples lie within {} of each other in storage (a true shuffle: {:.1f});{}"
      "a sample is {:.0f} % as far from its place in storage as in a true shuffle",
      report.order, report.batch_size, report.mixing.together, report.run, report.shuffle.together, next_line,
      100 * report.mixing.displacement / std::max(report.shuffle.displacement, 1e-9));
  if (report.meetings > 0) {
    text += fmt::format(
        ";{}two samples of a batch are together again in the next epoch {:.2f} times as often as in a true shuffle",
        next_line, report.meetings);
  }
  return text;
}

}  // namespace forebay::cli

// How well the configured order mixes the samples, in words, compared with a true shuffle. Examines
// only some batches, spread over an epoch, so that large datasets take no longer.

#include <algorithm>
#include <array>
#include <cstdio>

#include <forebay/order.hpp>

#include "index_report.hpp"
#include "output.hpp"

namespace forebay::cli {
namespace {

// How many samples are examined, at least one batch of them. Chosen.
constexpr std::uint64_t kLookedAt = 65'536;  // samples

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// The number of nodes of the later job is not known here. It cannot be taken as 1, because one node
// shuffles all samples at once.
std::uint32_t parts_of(const DatasetOptions& options) {
  return options.nodes > 0 ? static_cast<std::uint32_t>(options.nodes) : 2;
}

std::string order_in_words(const DatasetOptions& options) {
  if (!options.shuffle) return "as stored";
  if (options.order == SampleOrder::global) return "all at once";
  if (options.order == SampleOrder::local) {
    return "in " + grouped(parts_of(options)) + " parts, " + formatted("%.3g %% exchanged", 100 * options.exchange);
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

std::string to_text(const MixingReport& report, std::size_t column) {
  return report.order +
         formatted(
             ": of a batch of %llu, %.1f samples lie within %llu of each other in storage (a true shuffle: %.1f);\n",
             static_cast<unsigned long long>(report.batch_size), report.mixing.together,
             static_cast<unsigned long long>(report.run), report.shuffle.together) +
         std::string(column, ' ') +
         formatted("a sample is %.0f %% as far from its place in storage as in a true shuffle",
                   100 * report.mixing.displacement / std::max(report.shuffle.displacement, 1e-9)) +
         (report.meetings > 0 ? ";\n" + std::string(column, ' ') +
                                    formatted("two samples of a batch are together again in the next epoch %.2f times "
                                              "as often as in a true shuffle",
                                              report.meetings)
                              : "");
}

}  // namespace forebay::cli

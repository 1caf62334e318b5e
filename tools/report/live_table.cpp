#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/text.hpp"
#include "html.hpp"
#include "live_run.hpp"

namespace forebay::report {
namespace {

// Seconds without new telemetry after which a rank is shown as silent. Telemetry writes once a
// second, or once per interval. Chosen.
constexpr double kSilent_s = 10;

std::string bar_of(std::uint32_t depth, std::uint32_t capacity) {
  constexpr std::uint64_t kCells = 16;
  const std::uint64_t filled = capacity == 0 ? 0 : (kCells * std::min(depth, capacity) + capacity / 2) / capacity;
  return "[" + std::string(filled, '#') + std::string(kCells - filled, ' ') + "]";
}

std::string state_of(const RankNow& rank) {
  if (rank.has_ended) return rank.has_failed ? "failed" : "ended";
  return rank.silent_s > kSilent_s ? fmt::format("silent for {:.0f} s", rank.silent_s) : "";
}

// All columns have fixed widths, so that the table does not jump between looks.
std::string row_of(const RankNow& rank) {
  const double others = rank.lately.timed() > 0 ? rank.lately.census_s / rank.lately.timed() : 0;
  return fmt::format("{:>6} {:>9} {} {:>3}/{:<4} {:>8} {:>8} {:>8} {:>8.1f} {:>5.0f}  {}", rank.rank, rank.step,
                     bar_of(rank.depth, rank.capacity), rank.depth, rank.capacity,
                     html::percent(rank.lately.fresh_share()), html::percent(rank.lately.stall()),
                     html::percent(others), rank.steps_per_s(), rank.lately.uses_most, state_of(rank));
}

// All ranks in order, if they fit; otherwise those that wait the most, or, among equals, get the
// fewest new batches. The sort is stable, so that equal ranks stay in order.
std::vector<RankNow> shown_ranks(const LiveRun& run, std::size_t most) {
  std::vector<RankNow> ranks = run.ranks();
  if (ranks.size() <= most) return ranks;
  std::ranges::stable_sort(ranks, [](const RankNow& a, const RankNow& b) {
    if (a.lately.stall() != b.lately.stall()) return a.lately.stall() > b.lately.stall();
    return a.lately.fresh_share() < b.lately.fresh_share();
  });
  ranks.resize(most);
  return ranks;
}

}  // namespace

// The job is shown as silent only if every rank is.
std::string live_line(const LiveRun& run) {
  if (run.ranks().empty()) return "no telemetry yet: waiting for a run to write run.RANK.jsonl here";
  Bin lately;
  double depth = 0;
  double per_s = 0;
  double from_store = 0;
  double from_cache = 0;
  std::uint32_t capacity = 0;
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  double silent_s = 1e300;
  for (const RankNow& rank : run.ranks()) {
    lately.add(rank.lately);
    depth += rank.depth;
    per_s += rank.steps_per_s();
    from_store += rank.from_store;
    from_cache += rank.from_cache;
    capacity = std::max(capacity, rank.capacity);
    first = std::min(first, rank.step);
    last = std::max(last, rank.step);
    silent_s = std::min(silent_s, rank.silent_s);
  }
  const auto ranks = static_cast<double>(run.ranks().size());
  std::string text = first == last ? fmt::format("step {}", last) : fmt::format("step {} to {}", first, last);
  text += fmt::format("  depth {:.1f}/{}  fresh {}  stall {}  {:.1f} steps/s", depth / ranks, capacity,
                      html::percent(lately.fresh_share()), html::percent(lately.stall()), per_s / ranks);
  if (from_cache > 0) text += "  cache " + html::percent(from_cache / (from_store + from_cache));
  if (run.has_ended()) {
    return text + (std::ranges::any_of(run.ranks(), &RankNow::has_failed) ? "  failed" : "  ended");
  }
  return silent_s > kSilent_s ? text + fmt::format("  silent for {:.0f} s", silent_s) : text;
}

std::string live_table(const LiveRun& run, const std::string& name, std::size_t rows) {
  const std::size_t ranks = run.ranks().size();
  std::string text = "forebay top " + printable(name);
  if (ranks > 0) text += fmt::format("   {} of {} ranks", ranks, std::max<std::size_t>(ranks, run.expected()));
  if (!run.policy().empty()) text += "   policy " + printable(run.policy());
  text += "   q quits\n" + live_line(run) + "\n";
  if (ranks == 0) return text;
  text += fmt::format("\n{:>6} {:>9} {:<18} {:<8} {:>8} {:>8} {:>8} {:>8} {:>5}\n", "rank", "step", "queue", "ready",
                      "fresh", "stall", "others", "steps/s", "uses");
  constexpr std::size_t kAround = 5;  // the lines above, and the one below
  const std::size_t most = rows > kAround ? rows - kAround : 1;
  const std::vector<RankNow> shown = shown_ranks(run, most);
  for (const RankNow& rank : shown) text += row_of(rank) + "\n";
  if (shown.size() < ranks) {
    text += fmt::format("and {} more; those above wait the most, or get the fewest new batches", ranks - shown.size());
  }
  return text;
}

}  // namespace forebay::report

// The part of a page about one run: first what limits it, then facts and notes, charts over time,
// maps of all ranks, the profile and the configuration. For readers who do not see the charts, each
// has a summary for screen readers, and its numbers are in a folded table.

#include "sections.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "html.hpp"

namespace forebay::report {
namespace {

using html::duration;
using html::number;
using html::percent;

// Adding up bins gives means weighted by steps or time.
Bin total_of(const RunData& run) {
  Bin total;
  for (const Bin& bin : run.job) total.add(bin);
  return total;
}

// The value without TOML's quotes.
std::string setting_text(const RunData& run, const std::string& key) {
  std::string value = run.setting(key);
  std::erase(value, '"');
  return value.empty() ? "not known" : html::text(value);
}

std::string facts_of(const RunData& run) {
  const Bin total = total_of(run);
  std::vector<std::pair<std::string, std::string>> facts{
      {"policy", setting_text(run, "policy.name")},
      {"ranks", number(run.expected)},
      {"steps of a rank", number(static_cast<double>(run.ranks.front().last_step + 1))},
      {"time", duration(run.end_s)},
      {"fresh steps", percent(total.fresh_share()) + run.of_shown()},
      {"stall", percent(total.stall()) + run.of_shown()},
  };
  if (const std::optional<Summary> summary = run.summary()) {
    // What the summary says is of the last part, the facts above of all parts.
    const std::string of_what = run.ranks.front().parts > 1 ? " (last part)" : "";
    facts.emplace_back("fresh images/s", number(summary->images_per_s) + of_what);
    facts.emplace_back("uses of a batch", fmt::format("median {}, p99 {}, most {}{}", summary->uses_p50,
                                                      summary->uses_p99, summary->uses_max, of_what));
    facts.emplace_back("bad samples", number(static_cast<double>(summary->bad_samples)) + of_what);
    if (summary->bytes_from_cache + summary->cache_held > 0) {
      facts.emplace_back("from the cache", percent(summary->cache_share) + " of the bytes" + of_what);
    }
  } else {
    facts.emplace_back("most uses of a batch", number(total.uses_most) + run.of_shown());
  }
  return html::facts(facts);
}

std::string notes_of(const RunData& run) {
  if (run.notes.empty()) return "";
  std::string out = "<ul class='notes' aria-label='About the data'>\n";
  for (const std::string& note : run.notes) out += "<li>" + html::text(note) + "</li>\n";
  return out + "</ul>\n";
}

// Rounds up to 1, 2 or 5 times a power of 10, so that axis labels are round numbers.
double round_up(double value) {
  double unit = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double times : {1.0, 2.0, 5.0, 10.0}) {
    if (times * unit >= value) return times * unit;
  }
  return 10 * unit;
}

// Lowest, highest and mean value, for screen readers.
std::string spoken(const Curve& curve, double scale, const std::string& unit) {
  double least = INFINITY;
  double most = 0;
  double sum = 0;
  std::size_t count = 0;
  for (const auto& value : curve) {
    if (!value) continue;
    least = std::min(least, *value * scale);
    most = std::max(most, *value * scale);
    sum += *value * scale;
    ++count;
  }
  if (count == 0) return "nothing is known";
  return fmt::format("from {:.3g} to {:.3g}{}, {:.3g} on average", least, most, unit, sum / static_cast<double>(count));
}

std::string time_at(const RunData& run, std::size_t column) {
  return duration(static_cast<double>(column) * run.width_s, run.end_s);
}

// The area of all steps lies behind that of the fresh ones, so the visible part of it is reuse.
std::string queue_figure(const RunData& run) {
  const Curve fresh = curve_of(run.job, known_fresh);
  Curve steps = fresh;
  for (auto& value : steps) value = value ? std::optional(1.0) : std::nullopt;
  const double capacity = std::max<double>(1, run.capacity);
  const Curve depth = curve_of(run.job, known_depth, capacity);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < run.job.size(); ++i) {
    const Bin& bin = run.job[i];
    texts.push_back(time_at(run, i) + (bin.steps > 0 ? ": " + percent(bin.fresh_share()) + " fresh" : ": no step") +
                    (bin.depths > 0 ? fmt::format(", {:.1f} batches ready", bin.depth()) : ""));
  }
  Plot plot(run.job.size());
  plot.area(steps, "reuse");
  plot.area(fresh, "fresh");
  plot.line(depth, "depth");
  plot.hover(texts);
  const std::string svg = plot.svg("Queue, fresh and reuse over time",
                                   "fresh share of the steps " + spoken(fresh, 100, " %") + "; batches ready " +
                                       spoken(depth, capacity, " of " + number(capacity)));
  return figure(4, "Queue, fresh and reuse",
                {{"fresh", "fresh steps"}, {"reuse", "reused steps"}, {"depth", "batches ready"}}, svg,
                {.left = {"100 %", "50 %", "0 %"},
                 .right = {number(capacity), number(capacity / 2), "0"},
                 .below = time_labels(run.end_s)});
}

// The axis covers at least 1 %, otherwise noise would fill the chart.
std::string stall_figure(const RunData& run) {
  double most = 0;
  for (const Bin& bin : run.job) most = std::max(most, bin.stall());
  most = std::min(1.0, round_up(std::max(most, 0.01)));
  const Curve stall = curve_of(run.job, known_stall, most);
  Curve census(stall.size());
  for (std::size_t i = 0; i < census.size(); ++i) {
    if (stall[i]) census[i] = run.job[i].census_s / run.job[i].timed() / most;
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < run.job.size(); ++i) {
    texts.push_back(time_at(run, i) + ": " + (stall[i] ? percent(run.job[i].stall()) + " stall" : "not known"));
  }
  Plot plot(run.job.size());
  plot.area(stall, "stall");
  plot.area(census, "census");
  plot.hover(texts);
  return figure(4, "Stall", {{"stall", "time inside next()"}, {"census", "of it, for other ranks"}},
                plot.svg("Stall over time", "share of the time inside next() " + spoken(stall, 100 * most, " %")),
                {.left = {percent(most), percent(most / 2), "0 %"}, .below = time_labels(run.end_s)});
}

std::string uses_figure(const RunData& run) {
  double most = 2;
  for (const Bin& bin : run.job) most = std::max({most, bin.uses_most, bin.fresh > 0 ? bin.steps / bin.fresh : 0});
  most = round_up(most);
  Curve mean(run.job.size());
  Curve highest(run.job.size());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < run.job.size(); ++i) {
    const Bin& bin = run.job[i];
    if (bin.fresh > 0) mean[i] = bin.steps / bin.fresh / most;
    if (bin.uses_most > 0) highest[i] = bin.uses_most / most;
    texts.push_back(time_at(run, i) + ": " +
                    (mean[i] ? fmt::format("{:.2f} steps per new batch, ", *mean[i] * most) : "") +
                    fmt::format("{:.0f} uses at most", bin.uses_most));
  }
  Plot plot(run.job.size());
  plot.line(highest, "most");
  plot.line(mean, "mean");
  plot.hover(texts);
  return figure(4, "Uses of a batch", {{"mean", "steps per new batch"}, {"most", "most uses of one batch"}},
                plot.svg("Uses over time", "steps per new batch " + spoken(mean, most, "") +
                                               "; most uses of one batch " + spoken(highest, most, "")),
                {.left = {number(most), number(most / 2), "0"}, .below = time_labels(run.end_s)});
}

// The charts as numbers, in few enough rows for a screen reader.
std::string table_over_time(const RunData& run) {
  constexpr std::size_t kRows = 32;
  const std::size_t columns = (run.job.size() + kRows - 1) / kRows;
  html::Table table{
      .caption = "The charts as numbers",
      .head = {"from", "fresh", "batches ready", "stall", "for other ranks", "steps per new batch", "most uses"}};
  for (std::size_t first = 0; first < run.job.size(); first += columns) {
    Bin bin;
    for (std::size_t i = first; i < std::min(first + columns, run.job.size()); ++i) bin.add(run.job[i]);
    const bool is_timed = bin.timed() > 0;
    table.rows.push_back({time_at(run, first), bin.steps > 0 ? percent(bin.fresh_share()) : "no step",
                          bin.depths > 0 ? fmt::format("{:.1f}", bin.depth()) : "-",
                          is_timed ? percent(bin.stall()) : "-", is_timed ? percent(bin.census_s / bin.timed()) : "-",
                          bin.fresh > 0 ? fmt::format("{:.2f}", bin.steps / bin.fresh) : "-", number(bin.uses_most)});
  }
  return html::folded("The charts as numbers", html::table(table));
}

std::string rank_table(const RunData& run) {
  constexpr std::size_t kRows = 1024;
  const std::size_t size = (run.ranks.size() + kRows - 1) / kRows;
  html::Table table{.caption = size == 1 ? "Ranks" : "Ranks, " + std::to_string(size) + " to a row",
                    .head = {"rank", "fresh", "stall", "for other ranks", "batches ready", "most uses", "host"}};
  for (std::size_t first = 0; first < run.ranks.size(); first += size) {
    Bin bin;
    for (std::size_t i = first; i < std::min(first + size, run.ranks.size()); ++i) bin.add(run.ranks[i].bins.total());
    const RankData& rank = run.ranks[first];
    table.rows.push_back({std::to_string(rank.rank), percent(bin.fresh_share()), percent(bin.stall()),
                          percent(bin.timed() > 0 ? bin.census_s / bin.timed() : 0), fmt::format("{:.1f}", bin.depth()),
                          number(bin.uses_most), rank.head ? html::text(rank.head->host) : "-"});
  }
  return html::folded("All ranks as a table", html::table(table));
}

std::string ranks_part(const RunData& run, std::size_t most_rows) {
  double stall = 0.01;
  for (const RankData& rank : run.ranks) {
    for (const Bin& bin : rank.bins.bins()) stall = std::max(stall, bin.stall());
  }
  stall = std::min(1.0, round_up(stall));
  const double capacity = std::max<double>(1, run.capacity);
  return "<h3>Ranks</h3>\n" + heat_map_figure(run, {"Fresh steps", known_fresh, 1, "0 %", "100 %"}, most_rows) +
         heat_map_figure(run, {"Stall", known_stall, stall, "0 %", percent(stall)}, most_rows) +
         heat_map_figure(run, {"Batches ready", known_depth, capacity, "0", number(capacity)}, most_rows) +
         rank_table(run);
}

std::string configuration_of(const RunData& run) {
  if (run.settings().empty()) return "";
  html::Table table{.caption = "Configuration of rank 0", .head = {"key", "value"}, .is_text = true};
  for (const auto& [key, value] : run.settings()) {
    table.rows.push_back({"<code>" + html::text(key) + "</code>", "<code>" + html::text(value) + "</code>"});
  }
  return "<h3>Configuration</h3>\n" + html::folded("Every key with its value", html::table(table));
}

}  // namespace

// Chosen: 1024 rows per run for up to four runs, 4096 in total for more.
std::size_t most_heat_rows(const std::vector<RunData>& runs) noexcept {
  constexpr std::size_t kMostRows = 1024;
  return std::max<std::size_t>(1, kMostRows * 4 / std::max<std::size_t>(4, runs.size()));
}

// Without profiles of all ranks there is no finding, only figures.
std::string finding_of(const RunData& run) {
  const std::vector<Profile> profiles = run.profiles();
  if (!profiles.empty() && profiles.size() == run.ranks.size()) {
    return judge(profiles.size() == 1 ? profiles.front() : combine(profiles)).sentence;
  }
  const Bin total = total_of(run);
  return fmt::format("{}. {} of the steps were fresh, and {} of the time went into waiting{}",
                     run.has_ended() ? "not known: this run has no profile"
                                     : "not known yet: the profile is written at the end of a run",
                     percent(total.fresh_share()), percent(total.stall()), run.of_shown());
}

std::optional<double> known_fresh(const Bin& bin) {
  return bin.steps > 0 ? std::optional(bin.fresh_share()) : std::nullopt;
}
std::optional<double> known_stall(const Bin& bin) {
  return bin.timed() > 0 ? std::optional(bin.stall()) : std::nullopt;
}
std::optional<double> known_depth(const Bin& bin) { return bin.depths > 0 ? std::optional(bin.depth()) : std::nullopt; }

Curve curve_of(const std::vector<Bin>& bins, BinFigure figure, double most) {
  Curve curve;
  for (const Bin& bin : bins) {
    const std::optional<double> value = figure(bin);
    curve.push_back(value ? std::optional(*value / most) : std::nullopt);
  }
  return curve;
}

std::string run_section(const RunData& run, std::size_t most_rows) {
  return "<p class='finding'>" + html::text(finding_of(run)) + ".</p>\n" + facts_of(run) + notes_of(run) +
         "<h3>Over time</h3>\n" + queue_figure(run) + stall_figure(run) + uses_figure(run) + table_over_time(run) +
         ranks_part(run, most_rows) + profile_part(run) + configuration_of(run);
}

}  // namespace forebay::report

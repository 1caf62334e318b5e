
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "html.hpp"
#include "plot.hpp"
#include "sections.hpp"

// The part of a page that compares several runs: a table of their figures, the configuration keys
// that differ, and charts with a curve for each run. Every run is shown over its own time since its
// first batch. Called on one thread after all runs have been read.
namespace forebay::report {
namespace {

// How many curve styles the style sheet has; further runs reuse them.
constexpr std::size_t kStyles = 8;
std::string style_of(std::size_t run) { return "run" + std::to_string(run % kStyles); }

// One row per run, with a mark in the colour of the run's curves below.
std::string overview(const std::vector<RunData>& runs) {
  html::Table table{.caption = "Runs",
                    .head = {"run", "policy", "ranks", "time", "fresh", "stall", "batches ready", "most uses",
                             "fresh images/s", "limited by"}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    Bin total;
    for (const Bin& bin : run.job) total.add(bin);
    const std::optional<Summary> summary = run.summary();
    const std::string finding = finding_of(run);
    std::string policy = run.setting("policy.name");
    std::erase(policy, '"');
    table.rows.push_back(
        {fmt::format("<span class='mark {}'></span><a href='#run{}'>{}</a>", style_of(i), i, html::text(run.name)),
         policy.empty() ? "-" : html::text(policy), html::number(run.expected), html::duration(run.end_s),
         html::percent(total.fresh_share()) + run.of_shown(), html::percent(total.stall()) + run.of_shown(),
         fmt::format("{:.1f}", total.depth()) + run.of_shown(), html::number(total.uses_most) + run.of_shown(),
         summary ? html::number(summary->images_per_s) + (run.ranks.front().parts > 1 ? " (last part)" : "") : "-",
         html::text(finding.substr(0, finding.find(':')))});
  }
  return html::table(table);
}

// All keys, in the order in which they first appear.
std::vector<std::string> keys_of(const std::vector<RunData>& runs) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const RunData& run : runs) {
    for (const auto& [key, value] : run.settings()) {
      if (seen.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

// The keys that have different values; a missing key counts as a different value.
std::string differing_keys(const std::vector<RunData>& runs) {
  html::Table table{.caption = "Keys that differ", .head = {"key"}, .is_text = true};
  bool is_one_unknown = false;
  for (const RunData& run : runs) {
    table.head.push_back(html::text(run.name));
    is_one_unknown = is_one_unknown || run.settings().empty();
  }
  for (const std::string& key : keys_of(runs)) {
    std::vector<std::string> row{"<code>" + html::text(key) + "</code>"};
    std::set<std::string> values;
    for (const RunData& run : runs) {
      if (run.settings().empty()) {
        row.emplace_back("not known");
        continue;
      }
      const std::string value = run.setting(key);
      values.insert(value);
      row.push_back(value.empty() ? "-" : "<code>" + html::text(value) + "</code>");
    }
    if (values.size() > 1) table.rows.push_back(std::move(row));
  }
  const std::string unknown =
      is_one_unknown ? "<p>Of a run without run.0.jsonl the configuration is not known.</p>\n" : "";
  if (table.rows.empty()) return "<p>The configurations that are known do not differ.</p>\n" + unknown;
  return html::table(table) + unknown;
}

// One figure of all runs, on a time axis as long as the longest run.
struct Together {
  std::string title;
  std::string unit;
  double most = 1;
  BinFigure value;
};

// Draws all runs on one time axis of 256 columns (chosen).
std::string together(const std::vector<RunData>& runs, const Together& what) {
  constexpr std::size_t kColumns = 256;
  double end_s = 0;
  for (const RunData& run : runs) end_s = std::max(end_s, run.end_s);
  end_s = std::max(end_s, 1e-3);
  Plot plot(kColumns);
  std::vector<LegendEntry> legend;
  std::string spoken;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    Curve curve;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const double at_s = (static_cast<double>(column) + 0.5) / kColumns * end_s;
      const auto place = static_cast<std::size_t>(at_s / run.width_s);
      if (at_s > run.end_s || place >= run.job.size()) break;
      const std::optional<double> value = what.value(run.job[place]);
      curve.push_back(value ? std::optional(*value / what.most) : std::nullopt);
    }
    Bin total;
    for (const Bin& bin : run.job) total.add(bin);
    plot.line(curve, style_of(i));
    legend.push_back({style_of(i), run.name});
    spoken += fmt::format("{}{} {:.3g}{}", i == 0 ? "" : ", ", run.name,
                          what.value(total).value_or(0) * (what.unit == " %" ? 100 : 1), what.unit);
  }
  const bool is_share = what.unit == " %";
  const auto label = [&](double value) { return is_share ? html::percent(value) : html::number(value); };
  return figure(3, what.title, legend, plot.svg(what.title + " over time, all runs", "on average " + spoken),
                {.left = {label(what.most), label(what.most / 2), label(0)}, .below = time_labels(end_s)});
}

}  // namespace

std::string comparison_section(const std::vector<RunData>& runs) {
  double capacity = 1;
  for (const RunData& run : runs) capacity = std::max<double>(capacity, run.capacity);
  std::string out =
      "<section aria-labelledby='together'>\n<h2 id='together'>Together</h2>\n" + overview(runs) + differing_keys(runs);
  return out + together(runs, {"Fresh steps", " %", 1, known_fresh}) + together(runs, {"Stall", " %", 1, known_stall}) +
         together(runs, {"Batches ready", " batches", capacity, known_depth}) + "</section>\n";
}

}  // namespace forebay::report

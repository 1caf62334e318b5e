#include "sections.hpp"

#include <array>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "html.hpp"
#include "measure/figures.hpp"

namespace forebay::report {
namespace {

// Draws the shares of a stage's time as a bar; the table next to it has the numbers.
std::string bar_of(const StageProfile& stage) {
  const std::array<std::pair<const char*, double>, 3> parts{
      {{"busy", stage.busy}, {"blocked_in", stage.blocked_in}, {"blocked_out", stage.blocked_out}}};
  std::string out = "<span class='bar' aria-hidden='true'>";
  for (const auto& [style, share] : parts) {
    out += fmt::format("<span class='{}' style='width:{:.1f}%'></span>", style, 100 * share);
  }
  return out + "</span>";
}

// A figure's value; shares as percentages. Not inlined, because GCC 12 would then warn that some
// members may be uninitialised.
template <typename Record>
[[gnu::noinline]] std::string value_of(const measure::Figure<Record>& figure, const Record& record) {
  const double value = measure::number_of(figure, record).value_or(0);
  return figure.unit.empty() && figure.text.scale == 100 ? html::percent(value) : html::number(value);
}

// A stage that did no work has an absurdly high rate, shown as "-".
std::string stages_table(const Profile& job) {
  html::Table table{.caption = "Stages: shares of their threads' time", .head = {"stage", "time"}};
  for (const auto& figure : measure::stage_figures()) {
    table.head.push_back("<abbr title='" + html::text(figure.meaning) + "'>" + html::text(figure.key) + "</abbr>");
  }
  for (const auto& part : measure::profile_stages()) {
    const StageProfile& stage = job.*part.place;
    std::vector<std::string> row{html::text(part.name), bar_of(stage)};
    for (const auto& figure : measure::stage_figures()) {
      const double value = measure::number_of(figure, stage).value_or(0);
      constexpr double kWithoutCompute = 1e7;
      row.push_back(figure.unit.empty() ? html::percent(value) : value < kWithoutCompute ? html::number(value) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  return html::table(table) +
         "<ul class='legend'><li><span class='mark busy'></span>at work</li><li><span class='mark "
         "blocked_in'></span>waiting for work</li><li><span class='mark blocked_out'></span>waiting for room, or "
         "for "
         "other ranks</li></ul>\n";
}

std::string queues_table(const Profile& job) {
  html::Table table{.caption = "Queues", .head = {"queue", "unit"}};
  for (const auto& figure : measure::queue_figures()) {
    table.head.push_back("<abbr title='" + html::text(figure.meaning) + "'>" + html::text(figure.key) + "</abbr>");
  }
  for (const auto& part : measure::profile_queues()) {
    std::vector<std::string> row{html::text(part.name), html::text(part.unit)};
    for (const auto& figure : measure::queue_figures()) {
      const double value = measure::number_of(figure, job.*part.place).value_or(0);
      row.push_back(figure.key == "empty" || figure.key == "full" ? html::percent(value) : html::number(value));
    }
    table.rows.push_back(std::move(row));
  }
  return html::table(table);
}

template <typename Record>
std::string all_figures(const std::string& caption, measure::Figures<Record> figures, const Record& record) {
  html::Table table{.caption = caption, .head = {"figure", "value", "unit", "meaning"}, .is_text = true};
  for (const measure::Figure<Record>& figure : figures) {
    table.rows.push_back({"<code>" + html::text(figure.key) + "</code>", value_of(figure, record),
                          html::text(figure.unit), html::markdown(figure.meaning)});
  }
  return html::table(table);
}

}  // namespace

// Explanations come from the tables of figures (src/measure), so that page and documentation agree.
std::string profile_part(const RunData& run) {
  const std::vector<Profile> profiles = run.profiles();
  const std::optional<Summary> summary = run.summary();
  if (profiles.empty() && !summary) return "";
  std::string out;
  std::string all;
  if (summary) all += all_figures<Summary>("Summary", measure::summary_figures(), *summary);
  if (!profiles.empty()) {
    const Profile job = profiles.size() == 1 ? profiles.front() : combine(profiles);
    out += "<h3>Stages</h3>\n";
    if (profiles.size() > 1 && profiles.size() == run.ranks.size()) {
      const std::size_t slowest = slowest_rank(profiles);
      out += "<p>Mean of " + std::to_string(profiles.size()) + " ranks, images/s: their sum. The slowest is rank " +
             std::to_string(run.ranks[slowest].rank) + ": " + html::text(judge(profiles[slowest]).sentence) + ".</p>\n";
    }
    out += stages_table(job) + queues_table(job);
    all += all_figures<Profile>("Profile", measure::profile_figures(), job);
  }
  return out + html::folded("All figures of the summary and the profile", all);
}

}  // namespace forebay::report

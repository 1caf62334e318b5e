#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include <forebay/policy.hpp>
#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "counters.hpp"

// Describes the figures of a record. Their JSON, their text, a job's values from those of its
// ranks, and the tables of docs/telemetry.md are all derived from these descriptions. figures.cpp
// has all figures, in the order of the JSON. A new figure takes a member of its record, an entry
// there, and the line that counts it. The tables are constant, and the functions have no state; any
// thread may use them.
namespace forebay::measure {

// How a job's value is computed from those of its ranks. none: the record is of one rank only.
enum class OfRanks : std::uint8_t { none, sum, mean, mean_over_steps, least, most };

// A displayed text, with the number in {}, as in fmt. Letters in brackets are left out if the
// number is 1: "{:.0f} sample[s]".
struct Phrase {
  std::string_view line = {};    // the line in which it appears; "": not displayed
  std::string_view format = {};  // format of a double
  double scale = 1;              // the number shown is the value times this
  bool if_any = false;           // omitted if it would be displayed as 0
};

template <typename Record>
struct Figure {
  // A value computed from other figures of the same record, of a rank or of a job.
  using Formula = double (*)(const Record&);

  std::string_view key;
  std::variant<std::uint64_t Record::*, std::uint32_t Record::*, double Record::*, std::optional<double> Record::*,
               bool Record::*, Decision Record::*>
      place;
  std::string_view unit;
  std::string_view meaning;  // one line of Markdown
  std::variant<OfRanks, Formula> job = OfRanks::none;
  Phrase text = {};
  bool is_count = false;  // intervals add up; for monitoring, a counter since the start of the run
};

template <typename Record>
using Figures = std::span<const Figure<Record>>;

// Calls visit(value) with a reference to the figure's value in a record.
template <typename Record, typename Visit>
decltype(auto) visit_value(const Figure<std::remove_const_t<Record>>& figure, Record& record, Visit&& visit) {
  return std::visit([&](auto place) -> decltype(auto) { return visit(record.*place); }, figure.place);
}

// Calls visit(place) if the figure is a double or a 64-bit count, as all figures of summaries and
// profiles are.
template <typename Record, typename Visit>
void visit_place(const Figure<Record>& figure, Visit&& visit) {
  if (const auto* const place = std::get_if<double Record::*>(&figure.place)) visit(*place);
  if (const auto* const place = std::get_if<std::uint64_t Record::*>(&figure.place)) visit(*place);
}

// Sets the computed figures, in the order of the table.
template <typename Record>
void apply_formulas(std::type_identity_t<Figures<Record>> figures, Record& record) {
  for (const Figure<Record>& figure : figures) {
    const auto* const formula = std::get_if<typename Figure<Record>::Formula>(&figure.job);
    if (formula != nullptr) record.*std::get<double Record::*>(figure.place) = (*formula)(record);
  }
}

// Adds each figure of one record to that of another.
template <typename Record>
void add_figures(std::type_identity_t<Figures<Record>> figures, Record& to, const Record& from) {
  for (const Figure<Record>& figure : figures) {
    visit_place(figure, [&](auto place) { to.*place += from.*place; });
  }
}

// Combines the values of all ranks; steps(i) is the weight of rank i.
template <typename Value, typename Of, typename Steps>
Value combined(OfRanks rule, std::size_t ranks, const Of& of, const Steps& steps) {
  if (ranks == 0) return 0;
  Value sum = 0;
  Value least = of(0);
  Value most = of(0);
  double weighted = 0;
  double weights = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    const Value value = of(i);
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
    weighted += static_cast<double>(value) * steps(i);
    weights += steps(i);
  }
  switch (rule) {
    case OfRanks::none: return 0;
    case OfRanks::sum: return sum;
    case OfRanks::mean: return static_cast<Value>(static_cast<double>(sum) / static_cast<double>(ranks));
    case OfRanks::mean_over_steps: return static_cast<Value>(ratio(weighted, weights));
    case OfRanks::least: return least;
    case OfRanks::most: break;
  }
  return most;
}

// Sets the figures of a job's record, part(job), from part(rank) of each of its ranks; 0 without
// ranks.
template <typename Record, typename Whole, typename Part = std::identity>
void combine_figures(Figures<Record> figures, std::span<const Whole> ranks, Whole& job, const Part& part = {}) {
  const auto steps = [&](std::size_t i) {
    if constexpr (requires(const Whole& whole) { whole.steps; }) return static_cast<double>(ranks[i].steps);
    return 1.0;
  };
  for (const Figure<Record>& figure : figures) {
    const auto* const rule = std::get_if<OfRanks>(&figure.job);
    if (rule == nullptr) continue;
    visit_place(figure, [&](auto place) {
      using Value = std::remove_cvref_t<decltype(part(job).*place)>;
      part(job).*place = combined<Value>(
          *rule, ranks.size(), [&](std::size_t i) { return part(ranks[i]).*place; }, steps);
    });
  }
  apply_formulas(figures, part(job));
}

// Appends one line of JSON, newline included. Numbers with the unit "s" have `digits_of_seconds`
// decimals, all others six significant digits. What JSON cannot represent becomes 0, or null if the
// figure may be missing.
template <typename Record>
void append_json_line(std::string& out, Figures<Record> figures, const Record& record, int digits_of_seconds);

// Appends the phrase for a number; a missing number is shown as "-" without its unit.
void append_phrase(std::string& out, const Phrase& phrase, std::optional<double> number);

// The figure as a number; none if it is missing or not a number.
template <typename Record>
std::optional<double> number_of(const Figure<Record>& figure, const Record& record) {
  return visit_value(figure, record, [](const auto& value) -> std::optional<double> {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Value>) return static_cast<double>(value);
    if constexpr (std::is_same_v<Value, std::optional<double>>) return value;
    return std::nullopt;
  });
}

[[nodiscard]] Figures<StepRecord> step_figures() noexcept;     // steps.RANK.jsonl
[[nodiscard]] Figures<Interval> interval_figures() noexcept;   // intervals.RANK.jsonl, log lines
[[nodiscard]] Figures<Summary> summary_figures() noexcept;     // the summary, and its text
[[nodiscard]] Figures<Profile> profile_figures() noexcept;     // of the whole rank or job
[[nodiscard]] Figures<StageProfile> stage_figures() noexcept;  // of each stage
[[nodiscard]] Figures<QueueProfile> queue_figures() noexcept;  // of each queue

// A stage or a queue of a profile, which is a nested object in the JSON.
template <typename Record>
struct ProfilePart {
  std::string_view group;  // "stages" or "queues"
  std::string_view name;
  Record Profile::*place;
  std::string_view unit;
  std::string_view meaning;
};
[[nodiscard]] std::span<const ProfilePart<StageProfile>> profile_stages() noexcept;
[[nodiscard]] std::span<const ProfilePart<QueueProfile>> profile_queues() noexcept;

// The lines of a summary for people: "time AU 98.1 %, ...", one for each line that phrases name.
[[nodiscard]] std::string summary_text(const Summary& summary);

}  // namespace forebay::measure

#pragma once

#include <span>
#include <string>
#include <string_view>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "figure.hpp"
#include "interval.hpp"
#include "step_record.hpp"

// Every figure that Forebay writes, in the order of the JSON. A new one is a member of its record, an entry in
// figures.cpp, and the line that counts it.
namespace forebay {

[[nodiscard]] Figures<StepRecord> step_figures() noexcept;     // steps.RANK.jsonl
[[nodiscard]] Figures<Interval> interval_figures() noexcept;   // intervals.RANK.jsonl, and the lines for people
[[nodiscard]] Figures<Summary> summary_figures() noexcept;     // the summary, and its text
[[nodiscard]] Figures<Profile> profile_figures() noexcept;     // of the whole rank or job
[[nodiscard]] Figures<StageProfile> stage_figures() noexcept;  // of each stage
[[nodiscard]] Figures<QueueProfile> queue_figures() noexcept;  // of each queue

// A stage or a queue of a profile: an object of its own in the JSON.
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

// The lines of a summary for people: "time      AU 98.1 %, ...", one for each name that phrases stand in.
[[nodiscard]] std::string summary_text(const Summary& summary);

}  // namespace forebay

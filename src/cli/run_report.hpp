#pragma once

#include <span>
#include <string>
#include <string_view>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

namespace forebay {

// A run's summary for people: several lines, with a row for each rank if there are several.
[[nodiscard]] std::string summary_table(std::string_view policy, const Summary& job, std::span<const Summary> ranks);

// The JSON of a job's summary with a "profile" for the job, whose "slowest_rank" is a number, and for each of its
// ranks.
[[nodiscard]] std::string with_profiles(const std::string& summary, std::span<const Profile> ranks);

}  // namespace forebay

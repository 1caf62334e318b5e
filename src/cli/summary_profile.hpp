#pragma once

#include <span>
#include <string>

#include <forebay/profile.hpp>

namespace forebay {

// The JSON of a job's summary with a "profile" for the job, whose "slowest_rank" is a number, and for each of its
// ranks.
[[nodiscard]] std::string with_profiles(const std::string& summary, std::span<const Profile> ranks);

}  // namespace forebay

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job_state.hpp"

// What is left of a job, as it is stored in the state. Any thread may call these functions.
namespace forebay::order {

// The ranges as compressed JSON: one list for each of their numbers, with the differences from the
// previous range modulo 2^64. Most ranges resemble their neighbours, so the differences compress
// well.
[[nodiscard]] nlohmann::ordered_json pack_ranges(const std::vector<BatchRange>& ranges);

// The ranges that were given to pack_ranges(); they are not validated. Allocates memory for at most
// `most` ranges, however many the text has. Throws Error, saying what is wrong, and std::bad_alloc.
[[nodiscard]] std::vector<BatchRange> unpack_ranges(const nlohmann::ordered_json& left, std::uint64_t most);

[[nodiscard]] std::string too_many_ranges(std::uint64_t ranges, std::uint64_t most);

}  // namespace forebay::order

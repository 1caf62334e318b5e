#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job_state.hpp"

// What is left of a job, as its state has it.
namespace forebay::order {

// The ranges as JSON, compressed: a list for each of their numbers. It has the differences from the range before,
// modulo 2^64: most ranges resemble their neighbours, so these compress well.
[[nodiscard]] nlohmann::ordered_json pack_ranges(const std::vector<BatchRange>& ranges);

// The ranges that pack_ranges() was given; they may still be impossible. Takes memory for no more than `most` of them,
// however many the text has. Throws Error saying what is wrong, and std::bad_alloc.
[[nodiscard]] std::vector<BatchRange> unpack_ranges(const nlohmann::ordered_json& left, std::uint64_t most);

[[nodiscard]] std::string too_many_ranges(std::uint64_t ranges, std::uint64_t most);

}  // namespace forebay::order

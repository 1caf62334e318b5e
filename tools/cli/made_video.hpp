#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "scene.hpp"

namespace forebay::cli {

// The number of directions in which a generated video can move; a single frame does not show which
// it is.
constexpr std::size_t kMotions = 8;
[[nodiscard]] std::string_view motion_name(std::size_t motion) noexcept;

// An AVI file of JPEG frames in which a painted picture moves by: the same bytes for the same
// arguments. `plan`: of one frame. REQUIRES: motion < kMotions, frames > 0. Throws Error.
[[nodiscard]] std::string made_video(const ScenePlan& plan, std::size_t motion, int frames, int quality,
                                     std::uint64_t key);

}  // namespace forebay::cli

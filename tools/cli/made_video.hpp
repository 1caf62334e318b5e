#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "scene.hpp"

namespace forebay::cli {

// Ways in which the pictures of a made video move, which a single one of them does not tell.
constexpr std::size_t kMotions = 8;
[[nodiscard]] std::string_view motion_name(std::size_t motion) noexcept;

// An AVI file of JPEG pictures, in which something painted passes by: the same bytes for the same arguments.
// `plan`: of one picture. REQUIRES: motion < kMotions, frames > 0. Throws Error.
[[nodiscard]] std::string made_video(const ScenePlan& plan, std::size_t motion, int frames, int quality,
                                     std::uint64_t key);

}  // namespace forebay::cli

#pragma once

#include <cstddef>
#include <vector>

#include <forebay/dataset.hpp>

#include "pack_plan.hpp"

namespace forebay::archive {

inline constexpr std::string_view kPackTables = "codec.tables";

// The tables with which the JPEG files of a dataset are packed: those in the folder, or, at the first time, new ones
// made of some of its images, the same whoever makes them. Nothing if none of these images can be packed. Throws Error,
// or ConfigError for damaged tables, naming the file.
[[nodiscard]] std::vector<std::byte> tables_for_pack(const Dataset& dataset, const PackSettings& settings);

}  // namespace forebay::archive

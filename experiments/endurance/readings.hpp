#pragma once

#include <cstdint>
#include <filesystem>

// What a process and its run's folder take at a moment, as the system and the C library say.
namespace forebay::endurance {

struct Reading {
  std::uint64_t resident_bytes = 0;
  std::uint64_t proportional_bytes = 0;  // PSS: pages that processes share are divided among them
  std::uint64_t allocated_bytes = 0;     // by malloc, and not freed
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t bounded_bytes = 0;  // the largest telemetry of one kind and rank, its earlier file included
  std::uint64_t folder_bytes = 0;   // of all files
};

// `folder` is that of the run. Allocates.
[[nodiscard]] Reading read_now(const std::filesystem::path& folder);

}  // namespace forebay::endurance

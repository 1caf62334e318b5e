#pragma once

#include <cstdint>
#include <filesystem>

// What a process and its run's folder take at a moment, as the system and the C library say.
namespace forebay::endurance {

struct Reading {
  std::uint64_t resident_bytes = 0;      // the sum of the next four
  std::uint64_t resident_heap = 0;       // what malloc() took by brk()
  std::uint64_t resident_anonymous = 0;  // its other arenas, large blocks, stacks of threads
  std::uint64_t resident_shared = 0;     // memory of several processes
  std::uint64_t resident_files = 0;      // programs and libraries
  std::uint64_t proportional_bytes = 0;  // PSS: pages that processes share are divided among them
  std::uint64_t allocated_bytes = 0;     // by malloc() and not freed, or kept by a thread for its next call
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t bounded_bytes = 0;  // the largest telemetry of one kind and rank, its earlier file included
  std::uint64_t folder_bytes = 0;   // of all files
};

// `folder` is that of the run. Allocates.
[[nodiscard]] Reading read_now(const std::filesystem::path& folder);

}  // namespace forebay::endurance

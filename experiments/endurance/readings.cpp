#include "readings.hpp"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "measure/run_files.hpp"

namespace forebay::endurance {
namespace {

namespace fs = std::filesystem;

std::uint64_t entries_of(const char* folder) {
  std::uint64_t count = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++count;
  return count;
}

void add_memory(Reading& reading) {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    words >> key >> kib;
    if (key == "Rss:") reading.resident_bytes = kib << 10U;
    if (key == "Pss:") reading.proportional_bytes = kib << 10U;
  }
  const struct mallinfo2 info = ::mallinfo2();
  reading.allocated_bytes = info.uordblks + info.hblkhd;
}

void add_files(const fs::path& folder, Reading& reading) {
  std::map<std::pair<std::string_view, std::uint32_t>, std::uint64_t> bounded;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // renamed meanwhile
    const std::uint64_t size = it->file_size(gone);
    if (gone) continue;
    reading.folder_bytes += size;
    const std::string text = it->path().filename().string();
    const auto name = rank_file_name(text);
    if (name && (name->kind == "steps" || name->kind == "intervals")) bounded[{name->kind, name->rank}] += size;
  }
  for (const auto& [file, size] : bounded) reading.bounded_bytes = std::max(reading.bounded_bytes, size);
}

}  // namespace

Reading read_now(const fs::path& folder) {
  Reading reading;
  reading.descriptors = entries_of("/proc/self/fd");
  reading.threads = entries_of("/proc/self/task");
  add_memory(reading);
  add_files(folder, reading);
  return reading;
}

}  // namespace forebay::endurance

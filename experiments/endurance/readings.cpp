#include "readings.hpp"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
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

// What a mapping of this name is: "" has arenas of malloc() and stacks of threads.
std::uint64_t& resident_of(Reading& reading, std::string_view name) {
  if (name == "[heap]") return reading.resident_heap;
  if (name.starts_with("/dev/shm/") || name.ends_with("(deleted)")) return reading.resident_shared;
  if (name.starts_with('/')) return reading.resident_files;
  return reading.resident_anonymous;
}

void add_memory(Reading& reading) {
  std::ifstream in("/proc/self/smaps");
  std::string name;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (!key.ends_with(':')) {  // the first line of a mapping: addresses, rights, offset, device, inode, name
      std::string skipped;
      for (int i = 0; i < 4; ++i) words >> skipped;
      name.clear();
      std::getline(words >> std::ws, name);
      continue;
    }
    std::uint64_t kib = 0;
    if (key == "Rss:" && words >> kib) resident_of(reading, name) += kib << 10U;
    if (key == "Pss:" && words >> kib) reading.proportional_bytes += kib << 10U;
  }
  reading.resident_bytes =
      reading.resident_heap + reading.resident_anonymous + reading.resident_shared + reading.resident_files;
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

#pragma once

// Standard headers for all tests, so that none of them has to list them.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

namespace forebay::testing {

// Whether the build has a sanitizer. It takes up to twenty times as long, and of many similar cases
// a few suffice for it.
#ifdef FOREBAY_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The words of a text between blanks.
inline std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// what() of the exception of this kind that a call throws; "" if it throws none.
template <typename Kind = Error, typename Call>
std::string error_of(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Kind& error) {
    return error.what();
  }
  return {};
}

// Reads whole files, and lists all files below a folder in order of their paths.
// What can be read: a file of /proc ends in an error if its process ends meanwhile.
inline std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline std::vector<std::byte> read_bytes(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// The contents of all files below a folder by their paths there.
inline std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& path : files_in(folder)) files[path.lexically_relative(folder).string()] = read_text(path);
  return files;
}

// The limit of every wait in a test: far beyond what the slowest machine needs.
inline std::chrono::steady_clock::time_point limit() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// Polls for a condition that nothing signals: true once it holds, false after the limit.
template <typename Condition>
bool eventually(Condition&& condition, std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

// Calls check(item) for all items concurrently, for checks that mostly wait for processes that they
// started. Under a sanitizer one after another, because such processes need the cores. An exception
// is rethrown when all have ended.
template <typename Items, typename Check>
void at_once(const Items& items, const Check& check) {
  std::vector<std::future<void>> checks;
  for (const auto& item : items) {
    checks.push_back(std::async(kSanitized ? std::launch::deferred : std::launch::async, [&] { check(item); }));
  }
  for (std::future<void>& one : checks) one.get();
}

// A temporary directory, removed with everything in it at the end of the scope.
class TemporaryDirectory {
 public:
  // The name is unique, even if a killed process left its directory behind. Its parent is unique
  // too: a dataset may look at neighbouring folders, which must not belong to tests that run at the
  // same time.
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = std::filesystem::path(name) / "t";
    std::filesystem::create_directory(path_);
    // Permissions of an ordinary folder: some tests access it as another user.
    for (const auto& path : {path_.parent_path(), path_})
      std::filesystem::permissions(path, std::filesystem::perms(0755));
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_.parent_path(), ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// The top of the source tree.
[[nodiscard]] std::filesystem::path source_dir();
// The forebay command of this build; a test that starts it depends on the target forebay_command.
[[nodiscard]] std::string built_command();
// The library made from hanging_disk.c, to be preloaded. "" if programs run under an emulator.
[[nodiscard]] std::string hanging_disk();
// The path of mpiexec; "" in a build without MPI.
[[nodiscard]] std::string mpiexec();

}  // namespace forebay::testing

#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <forebay/error.hpp>

namespace forebay::testing {

// Built with a sanitizer, which takes up to twenty times as long and finds in a part of many like cases what it finds
// in all of them.
#ifdef FOREBAY_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// what() of the Error that a call throws, "" when it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// A directory of its own, removed with everything in it at the end of the scope.
class TemporaryDirectory {
 public:
  // A name that nobody has, not even a process that was killed before it could remove its own, and a parent of its
  // own: a dataset may look at the folders beside it, which must not be those of tests that run at the same time.
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = std::filesystem::path(name) / "t";
    std::filesystem::create_directory(path_);
    // As any folder: some tests look at it as another user.
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
// "" in a build without MPI.
[[nodiscard]] std::string mpiexec();

// The folder of real datasets, or nothing: $FOREBAY_DATA, else ../shared/data beside the source tree.
inline std::optional<std::filesystem::path> real_data() {
  std::filesystem::path path = source_dir().parent_path() / "shared" / "data";
  if (const char* given = std::getenv("FOREBAY_DATA")) path = given;
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  return path;
}

}  // namespace forebay::testing

#pragma once

#include <sys/stat.h>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "run_files.hpp"

namespace forebay::measure {

// The two files that a JsonLinesFile with a bound writes, open for reading; either may be missing.
// `Lines` has identity(), like LineFile.
template <typename Lines>
struct BoundedLines {
  std::optional<Lines> earlier;
  std::optional<Lines> latest;
};

// Whether this name still refers to the open file, and not to one that replaced it.
[[nodiscard]] inline bool is_name_of(const std::filesystem::path& name, const FileIdentity& file) noexcept {
  struct stat status {};
  return ::stat(name.c_str(), &status) == 0 && FileIdentity{status.st_dev, status.st_ino} == file;
}

// Opens both files by `open(path)`, which throws Error. The run may rename them meanwhile; the
// result has no gap between lines. Throws what `open` throws if it fails at every attempt. Any
// thread, any process.
//
// How: the latest file is opened first. If its name is still its own after the other file was
// opened, the other one is the file before it. If it was renamed in between, the other name may now
// be its own, and the file before it is gone. Anything else means that files were renamed twice, or
// that a name already belonged to another file when it was opened; then it tries again.
template <typename Lines, typename Open>
BoundedLines<Lines> open_bounded(const std::filesystem::path& file, Open&& open) {
  constexpr int kTries = 20;
  const std::filesystem::path before = earlier_file(file);
  BoundedLines<Lines> lines;
  const auto open_if_there = [&](const std::filesystem::path& path, std::optional<Lines>& opened) {
    std::error_code error;
    opened.reset();
    if (std::filesystem::exists(path, error)) opened.emplace(open(path));
  };
  for (int tries = 1; tries <= kTries; ++tries) {
    try {
      open_if_there(file, lines.latest);
      open_if_there(before, lines.earlier);
    } catch (const Error&) {
      if (tries == kTries) throw;
      continue;
    }
    if (!lines.latest || !lines.earlier) return lines;
    if (lines.earlier->identity() == lines.latest->identity()) break;
    if (is_name_of(file, lines.latest->identity())) return lines;
  }
  lines.earlier.reset();
  return lines;
}

}  // namespace forebay::measure

#include "output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#include <forebay/error.hpp>

namespace forebay {
namespace {

namespace fs = std::filesystem;

std::string cannot_write(const std::string& flag, const fs::path& file) {
  return flag + ": cannot write " + file.string() + ": ";
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// The nearest existing folder, in which the others would be created.
fs::path existing(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder_of(folder);
  return folder;
}

}  // namespace

void require_writable(const std::string& flag, const fs::path& file, bool makes_folder) {
  if (file.empty() || file == "-") return;
  const auto refuse = [&](const std::string& cause) { throw ConfigError(cannot_write(flag, file) + cause); };
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) refuse("it is a folder; name a file");
  if (fs::exists(status)) {
    if (!fs::is_regular_file(status) && !fs::is_character_file(status)) {
      refuse("it is neither a regular file nor a terminal");
    }
    if (::access(file.c_str(), W_OK) != 0) refuse(std::strerror(errno));
    return;
  }
  const fs::path folder = makes_folder ? existing(folder_of(file)) : folder_of(file);
  if (!fs::exists(folder, error)) refuse("there is no folder " + folder.string());
  if (!fs::is_directory(folder, error)) refuse(folder.string() + " is not a folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(std::strerror(errno));
}

void write_output(const std::string& flag, const fs::path& file, const std::string& text) {
  if (file == "-") {
    std::puts(text.c_str());  // main() checks the result
    return;
  }
  errno = 0;
  std::ofstream out(file, std::ios::trunc);
  out << text << "\n";
  out.flush();
  if (!out) throw Error(cannot_write(flag, file) + std::strerror(errno));
}

}  // namespace forebay

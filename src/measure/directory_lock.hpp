#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file_descriptor.hpp"

namespace forebay {

// The right to write one rank's files in telemetry.dir: of all feeders on this machine, and on others where the file
// system has locks, one at a time. A file ".writer.RANK" in the folder, locked while it is there; the system ends the
// lock of a process that dies, however it dies.
class DirectoryLock {
 public:
  // Nobody's, as for telemetry.dir = "".
  DirectoryLock() = default;
  // Waits 2 s for another process that has the lock, which may be dying. Throws ConfigError naming telemetry.dir and
  // the process that has the lock. On a file system without locks, and in a folder that cannot be written to, it takes
  // none.
  DirectoryLock(const std::string& dir, std::uint32_t rank);
  ~DirectoryLock() { release(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  DirectoryLock(DirectoryLock&& other) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;

  void release() noexcept;

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

}  // namespace forebay

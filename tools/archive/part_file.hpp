#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.hpp"

namespace forebay::archive {

// A file that is written as FILE.part and renamed to FILE when it is complete. Two processes never
// write the same one; what a killed process left is overwritten by the next. Used by one thread.
// All members throw Error naming the file.
class PartFile {
 public:
  enum class IfBusy : std::uint8_t { wait, fail };  // when another process is writing it

  PartFile(std::filesystem::path file, IfBusy if_busy);
  // Removes the part file unless finish() has returned.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Bytes appended so far.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Appends the bytes, and asks the system to start writing them to disk.
  void append(std::span<const std::byte> bytes);
  // Appends zeros up to this size. REQUIRES: size >= size().
  void fill_to(std::uint64_t size);
  // Overwrites bytes at the beginning of the file. REQUIRES: bytes.size() <= size().
  void overwrite(std::span<const std::byte> bytes);
  // Once this returns, the file has its name and survives a crash of the machine.
  void finish();

 private:
  [[nodiscard]] bool lock(IfBusy if_busy);
  void write(std::span<const std::byte> bytes, std::uint64_t at);
  [[noreturn]] void fail(const char* step, int error) const;

  std::filesystem::path file_;
  std::filesystem::path part_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
  bool is_finished_ = false;
};

// Makes a file that several processes share and that each would make alike, with the bytes that
// `make` returns; does nothing if it exists. Where the file system has locks, one process makes it
// while the others wait here. Where it has none, or where locks do not reach other nodes, several
// make it, and the first one's file remains. A file that has its name is never written again. Once
// this returns, the file survives a crash of the machine. Throws Error naming the file, and what
// `make` throws.
void make_shared_file(const std::filesystem::path& file, const std::function<std::vector<std::byte>()>& make);

}  // namespace forebay::archive

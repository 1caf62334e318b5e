// A file that is written under "NAME.part" and renamed when it is complete and on the disk, so that
// NAME is never half a file, whatever ends the process.
//
// The lock on the part keeps two processes from writing one shard. It is a lock of the open file,
// so it ends with the process. Between opening and locking, the previous holder may have renamed or
// removed the file: then the lock is on something that has no such name any more, and everything
// begins again.

#include "part_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include "base/output_file.hpp"

namespace forebay::archive {

// O_NOFOLLOW and O_NONBLOCK: a link or a FIFO of that name must neither be followed nor block.
PartFile::PartFile(std::filesystem::path file, IfBusy if_busy)
    : file_(std::move(file)), part_(file_.native() + ".part") {
  do {
    constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
    descriptor_ = FileDescriptor(retry_interrupted(
        [&] { return ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode); }));
    if (!descriptor_.is_open()) fail("cannot create it", errno);
  } while (!lock(if_busy));
  if (::ftruncate(descriptor_.get(), 0) != 0) fail("cannot empty it", errno);
}

PartFile::~PartFile() {
  if (!is_finished_) ::unlink(part_.c_str());
}

// False when the file that was opened has meanwhile been finished or removed by the process that held it.
bool PartFile::lock(IfBusy if_busy) {
  const int how = LOCK_EX | (if_busy == IfBusy::fail ? LOCK_NB : 0);
  if (retry_interrupted([&] { return ::flock(descriptor_.get(), how); }) != 0) {
    if (errno == EWOULDBLOCK) {
      throw Error(part_.string() + ": another process is writing it; give each a part of its own (--part)");
    }
    // Not every file system has locks. Then nothing but --part keeps processes apart.
    if (errno != ENOLCK && errno != ENOTSUP && errno != EINVAL && errno != ENOSYS) fail("cannot lock it", errno);
  }
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor_.get(), &opened) != 0) fail("cannot inspect it", errno);
  return ::stat(part_.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

// sync_file_range starts writing to the disk; it promises nothing.
void PartFile::append(std::span<const std::byte> bytes) {
  write(bytes, size_);
  // Only so that less is left to store in finish().
  (void)::sync_file_range(descriptor_.get(), static_cast<off64_t>(size_), static_cast<off64_t>(bytes.size()),
                          SYNC_FILE_RANGE_WRITE);
  size_ += bytes.size();
}

void PartFile::fill_to(std::uint64_t size) {
  constexpr std::array<std::byte, 4096> kZeros{};
  while (size_ < size) append(std::span(kZeros).first(std::min<std::uint64_t>(kZeros.size(), size - size_)));
}

void PartFile::overwrite(std::span<const std::byte> bytes) { write(bytes, 0); }

// fsync before rename, and then of the folder: otherwise a crash could leave the name with no
// bytes.
void PartFile::finish() {
  if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) fail("cannot sync it", errno);
  if (::rename(part_.c_str(), file_.c_str()) != 0) fail("cannot rename it", errno);
  is_finished_ = true;
  try {
    sync_folder_of(file_);
  } catch (const Error& error) {
    throw Error(file_.string() + ": " + error.what());
  }
}

void PartFile::write(std::span<const std::byte> bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const auto written = retry_interrupted(
        [&] { return ::pwrite(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)); });
    if (written < 0) fail("cannot write it", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
}

void PartFile::fail(const char* step, int error) const {
  throw Error(part_.string() + ": " + step + ": " + std::generic_category().message(error));
}

}  // namespace forebay::archive

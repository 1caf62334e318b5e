// PartFile writes a file under "NAME.part" and renames it once it is complete and on disk, so that
// NAME is never a partial file, however the process ends.
//
// The lock on the part file keeps two processes from writing the same shard. It belongs to the open
// file, so it ends with the process. Between opening and locking, the previous holder may have
// renamed or removed the file. Then the lock is on a file that no longer has that name, and the
// part file is opened again.

#include "part_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"

namespace forebay::archive {

// O_NOFOLLOW: a symbolic link of that name must not be followed. O_NONBLOCK: opening a FIFO of that
// name must not block.
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

// Locks the open part file. False if the process that held the lock has meanwhile renamed or
// removed the file.
bool PartFile::lock(IfBusy if_busy) {
  const int how = LOCK_EX | (if_busy == IfBusy::fail ? LOCK_NB : 0);
  if (retry_interrupted([&] { return ::flock(descriptor_.get(), how); }) != 0) {
    if (errno == EWOULDBLOCK) {
      throw Error(part_.string() + ": another process is writing it; give each a part of its own (--part)");
    }
    // Some file systems have no locks. There only --part keeps processes apart.
    if (errno != ENOLCK && errno != ENOTSUP && errno != EINVAL && errno != ENOSYS) fail("cannot lock it", errno);
  }
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor_.get(), &opened) != 0) fail("cannot inspect it", errno);
  return ::stat(part_.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void PartFile::append(std::span<const std::byte> bytes) {
  write(bytes, size_);
  // Starts writing to disk, so that fsync() in finish() has less to do. A failure does not matter.
  (void)::sync_file_range(descriptor_.get(), static_cast<off64_t>(size_), static_cast<off64_t>(bytes.size()),
                          SYNC_FILE_RANGE_WRITE);
  size_ += bytes.size();
}

void PartFile::fill_to(std::uint64_t size) {
  constexpr std::array<std::byte, 4096> kZeros{};
  while (size_ < size) append(std::span(kZeros).first(std::min<std::uint64_t>(kZeros.size(), size - size_)));
}

void PartFile::overwrite(std::span<const std::byte> bytes) { write(bytes, 0); }

// The file is synced before the rename, and the folder after it: otherwise a crash could leave the
// name without its content.
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

// make_shared_file(): several processes, on several machines, may want to make the same manifest or
// tables. Where the file system has locks, one process makes the file while the others wait
// (PartFile). Where it has none, several may make it at once; link() lets exactly one of them win,
// and the others use its file. What they would have made is the same, or is not used.

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code unknown;
  return fs::exists(file, unknown);
}

// Writes the file, unless another process was faster: first under a unique name, complete and
// synced, then linked to its own name, so that nobody ever sees a partial file.
void publish(const fs::path& file, std::span<const std::byte> bytes) {
  std::random_device random;
  const fs::path own = file.native() + "." + hex((std::uint64_t{random()} << 32U) | random(), 16);
  try {
    replace_file(own, bytes, ".");
    const int linked = ::link(own.c_str(), file.c_str()) == 0 ? 0 : errno;
    // Without hard links, rename() may replace the file of a process that was as fast; its bytes
    // are the same.
    if (linked != 0 && !is_there(file)) fs::rename(own, file);
    ::unlink(own.c_str());
    sync_folder_of(file);
  } catch (const std::exception& error) {
    ::unlink(own.c_str());
    throw Error(file.string() + ": cannot write it: " + error.what());
  }
}

// Whether the name is one that PartFile or publish() uses for `of`: "manifest.json.part",
// "manifest.json.0123456789abcdef", "manifest.json.0123456789abcdef.Xy12Zw". Files that others put
// there are not touched.
bool is_leftover(std::string_view name, std::string_view of) {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kTemporary = kDigits + 7;
  if (!name.starts_with(of) || name.substr(of.size(), 1) != ".") return false;
  name.remove_prefix(of.size() + 1);
  if (name == "part") return true;
  const bool has_digits = name.substr(0, kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return has_digits && (name.size() == kDigits || (name.size() == kTemporary && name[kDigits] == '.'));
}

// Removes what killed processes left behind. Without locks, another process may still be using its
// temporary file; since the final file exists, it no longer needs it.
void remove_leftovers(const fs::path& file) {
  const std::string name = file.filename().string();
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(file.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    if (is_leftover(entry->path().filename().native(), name)) found.push_back(entry->path());
  }
  for (const fs::path& each : found) ::unlink(each.c_str());
}

}  // namespace

void make_shared_file(const fs::path& file, const std::function<std::vector<std::byte>()>& make) {
  if (!is_there(file)) {
    const PartFile turn(file, PartFile::IfBusy::wait);
    if (!is_there(file)) publish(file, make());
  }
  remove_leftovers(file);
}

}  // namespace forebay::archive

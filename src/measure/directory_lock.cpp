#include "directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay {
namespace {

// A job that is begun again right after the one before was killed: a dying process has its locks until the system has
// taken back its memory, and the ranks of a killed mpirun outlive it.
constexpr std::chrono::seconds kPatience{2};

// The one who had the lock before removes the file; a lock on a file that is not in the folder any more keeps nobody
// out.
bool is_in_place(int descriptor, const std::filesystem::path& file) {
  struct stat mine {};
  struct stat there {};
  return ::fstat(descriptor, &mine) == 0 && ::stat(file.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

std::string who_am_i() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(::getpid()) + (host[0] == '\0' ? "" : " on " + std::string(host.data()));
}

std::string text_of(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "another process";
}

// What is written is for a message only.
void put_text(int descriptor, const std::string& text) {
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& dir, std::uint32_t rank) {
  using Clock = std::chrono::steady_clock;
  if (dir.empty()) return;
  const std::filesystem::path file = std::filesystem::path(dir) / (".writer." + std::to_string(rank));
  const std::string me = who_am_i();
  const Clock::time_point patience = Clock::now() + kPatience;
  for (;;) {
    FileDescriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!descriptor.is_open()) return;
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_in_place(descriptor.get(), file)) continue;
      put_text(descriptor.get(), me);
      descriptor_ = std::move(descriptor);
      file_ = file;
      return;
    }
    if (errno != EWOULDBLOCK) return;
    const std::string owner = text_of(descriptor.get());
    if (owner == me || Clock::now() >= patience) {
      throw ConfigError("telemetry.dir: \"" + printable(dir) + "\" is being written by " + printable(owner) +
                        (rank == 0 ? "" : " as rank " + std::to_string(rank)) +
                        ": give each feeder a folder of its own, or \"\" to write no files");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  file_ = std::move(other.file_);
  descriptor_ = std::move(other.descriptor_);
  return *this;
}

void DirectoryLock::release() noexcept {
  if (!descriptor_.is_open()) return;
  ::unlink(file_.c_str());
  // A child that was forked meanwhile has the descriptor too, and with it the lock.
  ::flock(descriptor_.get(), LOCK_UN);
  descriptor_.reset();
}

}  // namespace forebay

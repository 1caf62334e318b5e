#include "file_io.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace forebay {
namespace {

// Errors of the store, or of a limit that may be lifted, rather than of the file.
bool may_pass(int error) noexcept {
  constexpr std::array kPassing{EIO,          EAGAIN,   EINTR,       ESTALE,       ETIMEDOUT,    ENOMEM,    EMFILE,
                                ENFILE,       EBUSY,    ECONNRESET,  ECONNREFUSED, ECONNABORTED, ENOTCONN,  EHOSTDOWN,
                                EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENETRESET,    EREMOTEIO,    ESHUTDOWN, ENOLCK,
                                ENOBUFS,      EDQUOT,   ECOMM,       EPROTO,       ECANCELED};
  return std::find(kPassing.begin(), kPassing.end(), error) != kPassing.end();
}

std::string in_bytes(std::size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

// Transient: its size promised more, so it is being written or the store is confused.
SampleError ended_early(std::size_t at, std::size_t expected) {
  return SampleError("ended at byte " + std::to_string(at) + " where " + in_bytes(expected) + " were expected",
                     SampleError::Kind::transient);
}

}  // namespace

SampleError system_failure(std::string_view what, int error) {
  const std::string cause = error == ENOENT ? "no such file" : std::generic_category().message(error);
  return SampleError(std::string(what) + ": " + cause,
                     may_pass(error) ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

std::string problem_of_file(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return "the name contains a NUL byte";
  if (::stat(path.c_str(), &status) != 0) return system_failure("cannot open", errno).what();
  return describe_special(status.st_mode);
}

bool is_on_local_disk(const std::string& path) noexcept {
  // From linux/magic.h, and of file systems missing there: ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, ZFS, JFS, NTFS,
  // VFAT, exFAT, SquashFS, EROFS, ISO 9660, overlays (of containers), tmpfs, ramfs.
  constexpr std::array<std::uint32_t, 16> kLocal{0xEF53,     0x58465342, 0x9123683E, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1,
                                                 0x3153464A, 0x7366746E, 0x4D44,     0x2011BAB0, 0x73717368, 0xE0F5E1E2,
                                                 0x9660,     0x794C7630, 0x01021994, 0x858458F6};
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return false;
  return std::ranges::find(kLocal, static_cast<std::uint32_t>(found.f_type)) != kLocal.end();
}

OpenFile open_regular(const std::string& path) {
  // The system would cut the name at the NUL and open another file.
  if (path.find('\0') != std::string::npos) throw SampleError("cannot open: the name contains a NUL byte");
  FileDescriptor file(
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (file.get() < 0) {
    // "No such device or address", the system's text for a socket, would help nobody.
    if (errno == ENXIO) throw SampleError("is a socket or a device without a driver");
    throw system_failure("cannot open", errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_failure("cannot stat", errno);
  if (auto special = describe_special(status.st_mode); !special.empty()) throw SampleError(special);
  return {.descriptor = std::move(file), .size = static_cast<std::size_t>(status.st_size)};
}

void read_at(const FileDescriptor& file, std::size_t offset, std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got = retry_interrupted([&] {
      return ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    });
    if (got < 0) throw system_failure("cannot read", errno);
    if (got == 0) throw ended_early(offset + done, offset + bytes.size());
    done += static_cast<std::size_t>(got);
  }
}

void read_at(const FileDescriptor& file, std::size_t offset, std::span<const std::span<std::byte>> pieces) {
  std::array<iovec, 4> places{};
  int count = 0;
  std::size_t length = 0;
  for (const std::span<std::byte> piece : pieces) {
    places.at(static_cast<std::size_t>(count++)) = {.iov_base = piece.data(), .iov_len = piece.size()};
    length += piece.size();
  }
  const auto got =
      retry_interrupted([&] { return ::preadv(file.get(), places.data(), count, static_cast<off_t>(offset)); });
  if (got < 0) throw system_failure("cannot read", errno);
  auto filled = static_cast<std::size_t>(got);
  if (filled == length) return;
  if (filled == 0) throw ended_early(offset, offset + length);
  // The rest piece by piece: rare.
  for (const std::span<std::byte> piece : pieces) {
    const std::size_t there = std::min(filled, piece.size());
    read_at(file, offset + there, piece.subspan(there));
    filled -= there;
    offset += piece.size();
  }
}

void read_sample_file(const std::string& path, ReadTarget& target) {
  const OpenFile file = open_regular(path);
  if (file.size == 0) throw SampleError("is empty");
  if (file.size > kLargestSampleFile) {
    throw SampleError("has " + in_bytes(file.size) + ", more than the 1 GiB that a sample may have");
  }
  read_at(file.descriptor, 0, target.reserve(file.size));
}

std::vector<std::byte> load_file(const std::string& path, std::size_t limit) {
  const OpenFile file = open_regular(path);
  if (file.size > limit) {
    throw SampleError("has " + in_bytes(file.size) + ", more than the " + in_bytes(limit) + " allowed here");
  }
  std::vector<std::byte> bytes(file.size);
  read_at(file.descriptor, 0, bytes);
  return bytes;
}

}  // namespace forebay

// Reads files and descriptors, with errors that distinguish temporary failures (of a store, a limit
// of the process) from defects of the file itself. Every function that opens a file does so without
// blocking and checks what kind of file it is, because a FIFO in a dataset would otherwise hang a
// reader forever. Interrupted calls are repeated. Any thread; no state.

#include "file_io.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <forebay/error.hpp>
#include <string>
#include <system_error>

#include "limits.hpp"
#include "retry.hpp"
#include "text.hpp"

namespace forebay {
namespace {

// Whether an error is that of the store, or of a limit that may be lifted, rather than of the file,
// so that callers retry (docs/decisions/0025-a-store-that-fails-is-slow.md).
bool may_pass(int error) noexcept {
  constexpr std::array kPassing{EIO,          EAGAIN,   EINTR,       ESTALE,       ETIMEDOUT,    ENOMEM,    EMFILE,
                                ENFILE,       EBUSY,    ECONNRESET,  ECONNREFUSED, ECONNABORTED, ENOTCONN,  EHOSTDOWN,
                                EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENETRESET,    EREMOTEIO,    ESHUTDOWN, ENOLCK,
                                ENOBUFS,      EDQUOT,   ECOMM,       EPROTO,       ECANCELED,    EPIPE,     ENOLINK,
                                ENONET,       ETIME,    EKEYEXPIRED};
  return std::find(kPassing.begin(), kPassing.end(), error) != kPassing.end();
}

constexpr std::size_t kBuffer = std::size_t{64} << 10U;

std::string cause_of(int error) { return std::generic_category().message(error) + limit_behind(error); }

[[noreturn]] void cannot_read(int error) { throw Error("cannot be read: " + cause_of(error)); }

// Never blocks: a FIFO without a writer would.
int open_to_read(const std::filesystem::path& file) {
  while (true) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor >= 0) return descriptor;
    if (errno == ENXIO) throw Error("is a socket or a device without a driver");
    if (errno != EINTR) cannot_read(errno);
  }
}

mode_t mode_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) cannot_read(errno);
  return status.st_mode;
}

// Returns the number of bytes read; 0 at the end. Waits for a pipe in slices of a second, so that a
// slow writer has time, but not forever.
std::size_t read_some(int descriptor, std::span<char> to, int patience_s) {
  for (int waited = 0;;) {
    const auto got = ::read(descriptor, to.data(), to.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) cannot_read(errno);
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    // An interrupted wait counts as a slice, too: endless signals must not make it endless.
    if (::poll(&ready, 1, 1000) > 0) continue;
    if (++waited >= patience_s)
      throw Error("gave nothing for " + std::to_string(patience_s) + " s: its writer is stuck");
  }
}

}  // namespace

SampleError system_failure(std::string_view what, int error) {
  const std::string cause = error == ENOENT ? "no such file" : cause_of(error);
  return SampleError(std::string(what) + ": " + cause,
                     may_pass(error) ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

// Of a file that is not there: what paths from other systems and programs have.
std::string_view hint_about(std::string_view path) noexcept {
  if (path.find("file:/") != std::string_view::npos) return "; leave \"file://\" out of its path";
  return path.find('\\') == std::string_view::npos ? "" : "; folders are divided by /, not by \\";
}

SampleError cannot_open(const std::string& path, int error) {
  const SampleError failure = system_failure("cannot open", error);
  return error == ENOENT ? SampleError(std::string(failure.what()).append(hint_about(path))) : failure;
}

std::string problem_of_file(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return "the name contains a NUL byte";
  return read_patiently(path, [&]() -> std::string {
    if (::stat(path.c_str(), &status) == 0) return describe_special(status.st_mode);
    const SampleError failure = cannot_open(path, errno);
    if (failure.is_transient()) throw SampleError(path + ": " + failure.what(), SampleError::Kind::transient);
    return failure.what();
  });
}

bool is_on_local_disk(const std::string& path) noexcept {
  // From linux/magic.h, plus file systems missing there: ext2 to ext4, XFS, Btrfs, F2FS, bcachefs,
  // ZFS, JFS, NTFS, VFAT, exFAT, SquashFS, EROFS, ISO 9660, overlays (of containers), tmpfs, ramfs.
  constexpr std::array<std::uint32_t, 16> kLocal{0xEF53,     0x58465342, 0x9123683E, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1,
                                                 0x3153464A, 0x7366746E, 0x4D44,     0x2011BAB0, 0x73717368, 0xE0F5E1E2,
                                                 0x9660,     0x794C7630, 0x01021994, 0x858458F6};
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return false;
  return std::ranges::find(kLocal, static_cast<std::uint32_t>(found.f_type)) != kLocal.end();
}

SampleError ended_early(std::size_t at, std::size_t expected) {
  return SampleError("ended at byte " + std::to_string(at) + " where " + counted(expected, "byte") + " were expected",
                     SampleError::Kind::transient);
}

OpenFile open_regular(const std::string& path) {
  // The system would cut the name at the NUL and open another file.
  if (path.find('\0') != std::string::npos) throw SampleError("cannot open: the name contains a NUL byte");
  FileDescriptor file(
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (file.get() < 0) {
    // "No such device or address", the system's text for a socket, would not help.
    if (errno == ENXIO) throw SampleError("is a socket or a device without a driver");
    const int error = errno;
    if (error == EMFILE || error == ENFILE) throw NoDescriptor(system_failure("cannot open", error));
    throw cannot_open(path, error);
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
    if (got == 0) throw TruncatedFile(ended_early(offset + done, offset + bytes.size()));
    done += static_cast<std::size_t>(got);
  }
}

// preadv() may fill fewer bytes than asked for, in the middle of any piece.
void read_at(const FileDescriptor& file, std::size_t offset, std::span<const std::span<std::byte>> pieces) {
  std::array<iovec, 4> few{};
  std::vector<iovec> many;
  std::span<iovec> places = few;
  if (pieces.size() > few.size()) {
    many.resize(pieces.size());
    places = many;
  }
  std::size_t count = 0;
  std::size_t length = 0;
  for (const std::span<std::byte> piece : pieces) {
    places[count++] = {.iov_base = piece.data(), .iov_len = piece.size()};
    length += piece.size();
  }
  const auto got = retry_interrupted(
      [&] { return ::preadv(file.get(), places.data(), static_cast<int>(count), static_cast<off_t>(offset)); });
  if (got < 0) throw system_failure("cannot read", errno);
  auto filled = static_cast<std::size_t>(got);
  if (filled == length) return;
  if (filled == 0) throw TruncatedFile(ended_early(offset, offset + length));
  // Rare: the rest is read piece by piece.
  for (const std::span<std::byte> piece : pieces) {
    const std::size_t there = std::min(filled, piece.size());
    read_at(file, offset + there, piece.subspan(there));
    filled -= there;
    offset += piece.size();
  }
}

OpenFile open_sample_file(const std::string& path, bool may_be_empty) {
  OpenFile file = open_regular(path);
  if (file.size == 0 && !may_be_empty) throw SampleError("is empty");
  if (file.size > kLargestSampleFile) {
    throw SampleError("has " + counted(file.size, "byte") + ", more than the 1 GiB that a sample may have");
  }
  return file;
}

std::vector<std::byte> load_file(const OpenFile& file, std::size_t limit) {
  if (file.size > limit) {
    throw SampleError("has " + counted(file.size, "byte") + ", more than the " + counted(limit, "byte") +
                      " allowed here");
  }
  std::vector<std::byte> bytes(file.size);
  read_at(file, 0, bytes);
  return bytes;
}

std::vector<std::byte> load_file(const std::string& path, std::size_t limit) {
  return read_patiently(path, [&] { return load_file(open_regular(path), limit); });
}

std::vector<std::string> lines_of(std::span<const std::byte> bytes) {
  std::string_view text = as_text(bytes);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string> lines;
  while (!text.empty()) {
    if (const auto line = without_blanks(take_line(text)); !line.empty()) lines.emplace_back(line);
  }
  return lines;
}

FileIdentity identity_of(const FileDescriptor& file) noexcept {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {};
  return {.device = status.st_dev, .inode = status.st_ino};
}

std::string describe_special(mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a FIFO";
  if (S_ISSOCK(mode)) return "is a socket";
  return "is a device";
}

LineFile::LineFile(const std::filesystem::path& file, std::size_t longest)
    : descriptor_(open_to_read(file)), longest_(longest), buffer_(kBuffer) {
  if (const std::string special = describe_special(mode_of(descriptor_.get())); !special.empty()) {
    throw Error(special + ", not a regular file");
  }
}

LineFile::LineFile(FileDescriptor file, std::size_t longest)
    : descriptor_(std::move(file)), longest_(longest), buffer_(kBuffer) {}

bool LineFile::fill() {
  begin_ = 0;
  end_ = read_some(descriptor_.get(), buffer_, 1);
  return end_ > 0;
}

bool LineFile::next(std::string& line) {
  line.clear();
  if (is_cut_ || (begin_ == end_ && !fill())) return false;
  ++number_;
  while (true) {
    const char* const from = buffer_.data() + begin_;
    const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
    const std::size_t bytes = newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - from);
    if (bytes > longest_ - line.size()) {
      throw Error("has a line of more than " + std::to_string(longest_) + " bytes: line " + std::to_string(number_));
    }
    line.append(from, bytes);
    begin_ += bytes;
    if (newline != nullptr) {
      ++begin_;
      return true;
    }
    if (!fill()) {
      is_cut_ = true;
      return true;
    }
  }
}

std::string read_text_file(const std::filesystem::path& file, std::size_t limit, int patience_s) {
  const FileDescriptor opened(open_to_read(file));
  const mode_t mode = mode_of(opened.get());
  if (S_ISDIR(mode)) throw Error("is a directory, not a file");
  if (S_ISSOCK(mode) || S_ISBLK(mode)) throw Error(describe_special(mode) + ", not a file of text");
  if (::isatty(opened.get()) != 0) throw Error("is a terminal, not a file of text");
  std::string text;
  std::vector<char> part(kBuffer);
  while (const std::size_t got = read_some(opened.get(), part, patience_s)) {
    if (got > limit - text.size()) throw Error("has more than " + std::to_string(limit) + " bytes");
    text.append(part.data(), got);
  }
  if (S_ISFIFO(mode) && text.empty()) throw Error("is a FIFO that nobody writes to, or that nothing was written to");
  return text;
}

// Before a recursive parser sees the text: brackets inside strings do not count.
std::size_t json_depth(std::string_view json) noexcept {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

}  // namespace forebay

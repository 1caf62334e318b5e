
#include "text_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <forebay/error.hpp>

#include "file_descriptor.hpp"

namespace forebay {
namespace {

constexpr std::size_t kBuffer = std::size_t{64} << 10U;

[[noreturn]] void cannot_read(int error) { throw Error("cannot be read: " + std::generic_category().message(error)); }

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

// Bytes read; 0 at the end. Waits for a pipe in slices of a second, so that a slow writer is given time, but not for
// ever.
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

bool LineFile::fill() {
  begin_ = 0;
  end_ = read_some(descriptor_.get(), buffer_, 1);
  return end_ > 0;
}

bool LineFile::next(std::string& line) {
  line.clear();
  is_cut_ = false;
  if (begin_ == end_ && !fill()) return false;
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

}  // namespace forebay

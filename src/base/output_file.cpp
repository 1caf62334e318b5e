// Writes files, with two concerns. Atomic replacement: replace_file() writes a file beside the old
// one, syncs it, renames it and syncs the folder, so that a crash at any moment leaves either the
// old or the new file whole. Safety in shared folders: files under generated names are newly
// created, or opened without following links or waiting for a FIFO, because somebody else may have
// put something there (/tmp); links that the user named are followed, unless they belong to a third
// user. Any thread.

#include "output_file.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kForAll = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;  // minus the umask
constexpr mode_t kReadByAll = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;                   // likewise
constexpr int kMostTried = 100;

[[noreturn]] void output_fails(const std::string& step, int error) {
  throw Error(step + ": " + std::generic_category().message(error));
}

void require_local(const fs::path& file) {
  if (const auto problem = problem_of_output(file.native()); !problem.empty()) throw Error(std::string(problem));
}

// 0, or the system's error.
int write_bytes_to(int descriptor, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const auto written = retry_interrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

// The file was opened without waiting; writes to it may wait.
FileDescriptor waiting(FileDescriptor file) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags >= 0) (void)::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
  return file;
}

// Opens whatever exists under a generated name, without following a link or waiting. Does not throw
// for a regular file or a device.
FileDescriptor open_present(const fs::path& file, int how) {
  constexpr int kNever = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  FileDescriptor opened(retry_interrupted([&] { return ::open(file.c_str(), how | kNever, kReadByAll); }));
  if (!opened.is_open() && errno == ELOOP) throw Error("it is a symbolic link: remove it, or choose another folder");
  if (!opened.is_open() && errno == ENXIO) throw Error("it is a FIFO or a socket: remove it");
  if (!opened.is_open()) output_fails("cannot open it", errno);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) output_fails("cannot inspect it", errno);
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    throw Error("it " + describe_special(status.st_mode) + ": remove it, or choose another folder");
  }
  return waiting(std::move(opened));
}

// Like those of mkstemp(), which could not be used because it does not set the mode.
std::string six_characters() {
  constexpr std::string_view kCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> one(0, kCharacters.size() - 1);
  std::string text;
  for (int i = 0; i < 6; ++i) text += kCharacters[one(random)];
  return text;
}

// The new file beside the old one, removed unless it takes the old one's place. It gets the
// permissions of the old file, if there is one, and is readable only by its owner until they are
// set.
class NewFile {
 public:
  NewFile(const fs::path& file, std::string_view suffix) {
    struct stat old {};
    const bool is_there = ::lstat(file.c_str(), &old) == 0 && S_ISREG(old.st_mode);
    for (int i = 0; i < kMostTried && !descriptor_.is_open(); ++i) {
      path_ = file.native() + std::string(suffix) + six_characters();
      descriptor_ = FileDescriptor(retry_interrupted([&] {
        return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                      is_there ? S_IRUSR | S_IWUSR : kReadByAll);
      }));
      if (!descriptor_.is_open() && errno != EEXIST) break;
    }
    if (!descriptor_.is_open()) output_fails("cannot create a file beside it", errno);
    // Not every file system supports this.
    if (is_there) (void)::fchmod(descriptor_.get(), old.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
  }
  ~NewFile() {
    if (!in_place_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes) { write_all(descriptor_, bytes); }
  void sync() {
    if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) output_fails("cannot sync", errno);
  }
  void take_the_place_of(const fs::path& file) {
    if (::rename(path_.c_str(), file.c_str()) != 0) {
      output_fails(errno == ENOENT ? "the new file is gone; another process may be writing it" : "cannot replace it",
                   errno);
    }
    in_place_ = true;
  }

 private:
  std::string path_;
  FileDescriptor descriptor_;
  bool in_place_ = false;
};

// The rule that the kernel applies in /tmp (fs.protected_symlinks), which does not cover links that
// are resolved by hand.
void require_trusted_link(const fs::path& link, uid_t owner) {
  struct stat folder {};
  const bool is_known = ::stat(folder_of(link).c_str(), &folder) == 0;
  if (owner == ::geteuid() || owner == 0 || (is_known && owner == folder.st_uid)) return;
  throw Error("it is a link of another user: choose another name");
}

// The folder `name` of `parent`, made if there is none. Closed, with errno, if it cannot be made or is a link.
FileDescriptor open_below(int parent, const char* name) noexcept {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  constexpr mode_t kMode = S_IRWXU | S_IRWXG | S_IRWXO;
  FileDescriptor folder(retry_interrupted([&] { return ::openat(parent, name, kFolder); }));
  if (folder.is_open() || errno != ENOENT) return folder;
  if (::mkdirat(parent, name, kMode) != 0 && errno != EEXIST) return {};
  return FileDescriptor(retry_interrupted([&] { return ::openat(parent, name, kFolder); }));
}

}  // namespace

void write_all(const FileDescriptor& file, std::span<const std::byte> bytes) {
  if (const int error = write_bytes_to(file.get(), bytes); error != 0) output_fails("cannot write", error);
}

void write_all(const FileDescriptor& file, std::string_view text) { write_all(file, std::as_bytes(std::span(text))); }

FileDescriptor open_made(const fs::path& file) {
  require_local(file);
  for (int i = 0; i < kMostTried; ++i) {
    FileDescriptor made(retry_interrupted([&] {
      // Appended to, so that one that is emptied while it is written has no hole.
      return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, kReadByAll);
    }));
    if (made.is_open()) return made;
    if (errno != EEXIST) output_fails("cannot create it", errno);
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0) continue;  // just removed
    if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) return open_present(file, O_WRONLY);
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) output_fails("cannot replace it", errno);
  }
  throw Error("cannot create it: another process makes it again and again");
}

std::string_view problem_of_output(std::string_view path) noexcept {
  if (path.empty()) return "the name is empty: name a file or folder";
  const auto colon = path.find("://");
  const auto is_of_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (colon == std::string_view::npos || colon == 0 || !std::ranges::all_of(path.substr(0, colon), is_of_scheme)) {
    return {};
  }
  return "it is a URL, and only files are written: name a file or folder, and copy it to the store afterwards";
}

FileDescriptor open_to_append(const fs::path& file) {
  require_local(file);
  return open_present(file, O_RDWR | O_APPEND | O_CREAT);
}

FileDescriptor open_named(const fs::path& file) {
  require_local(file);
  FileDescriptor opened(retry_interrupted(
      [&] { return ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, kForAll); }));
  if (!opened.is_open()) output_fails("cannot open it", errno);
  return opened;
}

OutputFolder::OutputFolder(const fs::path& folder) {
  require_local(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) output_fails("cannot make the folder " + folder.string(), error.value());
  folder_ =
      FileDescriptor(retry_interrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder_.is_open()) output_fails("cannot open the folder " + folder.string(), errno);
}

// Folder by folder with openat(), so that no link below the folder can lead out of it.
FileDescriptor OutputFolder::reach(const fs::path& name) const noexcept {
  FileDescriptor below = open_below(folder_.get(), ".");
  for (auto part = name.begin(); part != name.end() && below.is_open(); ++part) {
    below = open_below(below.get(), part->c_str());
  }
  return below;
}

int OutputFolder::make_folder(const fs::path& name) const { return reach(name).is_open() ? 0 : errno; }

int OutputFolder::write(const fs::path& name, std::span<const std::byte> bytes, IfThere if_there) const {
  const FileDescriptor above = reach(name.parent_path());
  if (!above.is_open()) return errno;
  const int parent = above.get();
  const fs::path last = name.filename();
  const auto make = [&] {
    return FileDescriptor(retry_interrupted(
        [&] { return ::openat(parent, last.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadByAll); }));
  };
  FileDescriptor made = make();
  if (!made.is_open() && errno == EEXIST && if_there == IfThere::replace) {
    if (::unlinkat(parent, last.c_str(), 0) != 0) return errno;
    made = make();
  }
  if (!made.is_open()) return errno;
  const int failed = write_bytes_to(made.get(), bytes);
  if (failed != 0) ::unlinkat(parent, last.c_str(), 0);  // half a file must not pass for a whole one
  return failed;
}

fs::path replaceable(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as in the kernel
  require_local(path);
  fs::path file = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0) return file;  // absent; any other error shows when it is written
    if (!S_ISLNK(status.st_mode)) {
      const std::string what = describe_special(status.st_mode);
      if (!what.empty()) throw Error("it " + what + ": choose another name");
      return file;
    }
    require_trusted_link(file, status.st_uid);
    std::error_code error;
    const fs::path next = fs::read_symlink(file, error);
    if (error) output_fails("cannot follow the link", error.value());
    file = folder_of(file) / next;  // an absolute path replaces the folder
  }
  output_fails("cannot follow the link", ELOOP);
}

// Some folders cannot be opened, and some file systems cannot sync one. Neither is an error.
void sync_folder_of(const fs::path& file) {
  const FileDescriptor folder(
      retry_interrupted([&] { return ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder.is_open() || ::fsync(folder.get()) == 0) return;
  if (errno != EINVAL && errno != ENOTSUP) output_fails("cannot sync its folder", errno);
}

void replace_file(const fs::path& file, std::span<const std::byte> bytes, std::string_view suffix) {
  replace_file(
      file, [&](const PieceWriter& write) { write(bytes); }, suffix);
}

void replace_file(const fs::path& file, const std::function<void(const PieceWriter& write)>& fill,
                  std::string_view suffix) {
  NewFile replacement(file, suffix);
  fill([&](std::span<const std::byte> piece) { replacement.write(piece); });
  replacement.sync();
  replacement.take_the_place_of(file);
  sync_folder_of(file);
}

}  // namespace forebay

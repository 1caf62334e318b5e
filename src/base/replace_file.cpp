#include "replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <forebay/error.hpp>

#include "file_descriptor.hpp"
#include "text_file.hpp"

namespace forebay {
namespace {

[[noreturn]] void fail(const std::string& step, int error) {
  throw Error(step + ": " + std::generic_category().message(error));
}

// The new file beside the old one. It is removed unless it takes the old one's place.
class NewFile {
 public:
  NewFile(const std::filesystem::path& file, std::string_view suffix)
      : path_(file.native() + std::string(suffix) + "XXXXXX"), descriptor_(::mkostemp(path_.data(), O_CLOEXEC)) {
    if (!descriptor_.is_open()) fail("cannot create a file beside it", errno);
    ::fchmod(descriptor_.get(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  }
  ~NewFile() {
    if (!in_place_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto written = retry_interrupted([&] { return ::write(descriptor_.get(), bytes.data(), bytes.size()); });
      if (written < 0) fail("cannot write", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) fail("cannot sync", errno);
  }
  void take_the_place_of(const std::filesystem::path& file) {
    if (::rename(path_.c_str(), file.c_str()) != 0) {
      fail(errno == ENOENT ? "the new file is gone; another process may be writing it" : "cannot replace it", errno);
    }
    in_place_ = true;
  }

 private:
  std::string path_;
  FileDescriptor descriptor_;
  bool in_place_ = false;
};

// Not every folder can be opened, and not every file system can sync one. That is no error.
void sync_folder_of(const std::filesystem::path& file) {
  const FileDescriptor folder(
      retry_interrupted([&] { return ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder.is_open() || ::fsync(folder.get()) == 0) return;
  if (errno != EINVAL && errno != ENOTSUP) fail("cannot sync its folder", errno);
}

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

std::filesystem::path replaceable(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as in the kernel
  std::filesystem::path file = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0) return file;  // absent; any other error shows when it is written
    if (!S_ISLNK(status.st_mode)) {
      const std::string what = describe_special(status.st_mode);
      if (!what.empty()) throw Error("it " + what + ": choose another name");
      return file;
    }
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(file, error);
    if (error) fail("cannot follow the link", error.value());
    file = folder_of(file) / next;  // an absolute path replaces the folder
  }
  fail("cannot follow the link", ELOOP);
}

void replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes, std::string_view suffix) {
  NewFile replacement(file, suffix);
  replacement.write(bytes);
  replacement.take_the_place_of(file);
  sync_folder_of(file);
}

}  // namespace forebay

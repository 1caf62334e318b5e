#include "state_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <vector>

#include <forebay/detail/text_file.hpp>
#include <forebay/error.hpp>

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestState = std::size_t{16} << 20U;
constexpr std::string_view kSaving = ".saving-";
constexpr std::string_view kUnique = "XXXXXX";  // what mkostemp replaces

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return number_; }

 private:
  int number_;
};

template <typename Call>
auto retry_interrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_save(const fs::path& file, const std::string& what, int error) {
  throw Error("cannot save the state to " + file.string() + ": " + what + ": " + reason(error));
}

[[noreturn]] void cannot_resume(const fs::path& file, const std::string& what) {
  throw ConfigError("cannot read the state " + file.string() + ": " + what);
}

fs::path folder_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// Not a name that somebody would give to a copy of a state.
bool is_being_saved(std::string_view name, std::string_view file) {
  if (!name.starts_with(file)) return false;
  name.remove_prefix(file.size());
  if (!name.starts_with(kSaving)) return false;
  name.remove_prefix(kSaving.size());
  return name.size() == kUnique.size() &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0; });
}

// What cannot be removed does no harm: nobody takes it for a state.
void remove_leftovers(const fs::path& file) {
  const std::string name = file.filename().string();
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(folder_of(file), error), end; !error && it != end; it.increment(error)) {
    if (is_being_saved(it->path().filename().native(), name)) leftovers.push_back(it->path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover, error);
}

// The new state beside the old one; it disappears unless it takes its place.
class NewState {
 public:
  explicit NewState(const fs::path& file)
      : file_(file),
        path_(file.native() + std::string(kSaving) + std::string(kUnique)),
        descriptor_(::mkostemp(path_.data(), O_CLOEXEC)) {
    if (descriptor_.get() < 0) cannot_save(file_, "cannot create a file beside it", errno);
    ::fchmod(descriptor_.get(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  }
  ~NewState() {
    if (!in_place_) ::unlink(path_.c_str());
  }
  NewState(const NewState&) = delete;
  NewState& operator=(const NewState&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const auto written = retry_interrupted([&] { return ::write(descriptor_.get(), text.data(), text.size()); });
      if (written < 0) cannot_save(file_, "cannot write", errno);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) cannot_save(file_, "cannot sync", errno);
  }

  void put_in_place() {
    if (::rename(path_.c_str(), file_.c_str()) != 0) {
      cannot_save(file_,
                  errno == ENOENT ? "the new file is gone; another job may be saving to it" : "cannot replace it",
                  errno);
    }
    in_place_ = true;
  }

 private:
  const fs::path& file_;
  std::string path_;
  Descriptor descriptor_;
  bool in_place_ = false;
};

// Not every folder can be opened, and not every file system can sync one; those that cannot need not.
void sync_folder_of(const fs::path& file) {
  const Descriptor folder(
      retry_interrupted([&] { return ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (folder.get() < 0 || ::fsync(folder.get()) == 0) return;
  if (errno == EINVAL || errno == ENOTSUP) return;
  cannot_save(file, "cannot sync its folder", errno);
}

// The file that is to be replaced: where links lead, although there may be nothing yet. A rename replaces whatever has
// the name, so anything but a file is refused beforehand.
fs::path target_of(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  fs::path file = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0) return file;  // if not for its absence, writing will say so
    if (!S_ISLNK(status.st_mode)) {
      const std::string what = describe_special(status.st_mode);
      if (!what.empty())
        throw Error("cannot save the state to " + path.string() + ": it " + what + ": choose another name");
      return file;
    }
    std::error_code error;
    const fs::path next = fs::read_symlink(file, error);
    if (error) cannot_save(path, "cannot follow the link", error.value());
    file = folder_of(file) / next;  // an absolute one stands by itself
  }
  cannot_save(path, "cannot follow the link", ELOOP);
}

}  // namespace

void write_state(const fs::path& path, std::string_view text) {
  const fs::path file = target_of(path);
  std::error_code error;
  fs::create_directories(folder_of(file), error);
  if (error) cannot_save(file, "cannot create its folder", error.value());
  remove_leftovers(file);
  NewState state(file);
  state.write(text);
  state.put_in_place();
  sync_folder_of(file);
}

std::optional<std::string> read_state(const fs::path& file) {
  // A FIFO without a writer would otherwise be waited for.
  const Descriptor descriptor(
      retry_interrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  if (descriptor.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat status {};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) cannot_resume(file, reason(errno));
  if (const std::string what = describe_special(status.st_mode); !what.empty()) cannot_resume(file, "it " + what);
  std::string text;
  std::array<char, std::size_t{64} << 10U> part{};
  while (true) {
    const auto got = retry_interrupted([&] { return ::read(descriptor.get(), part.data(), part.size()); });
    if (got < 0) cannot_resume(file, reason(errno));
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargestState) cannot_resume(file, "it has more than 16 MiB, and no state has");
  }
}

}  // namespace forebay

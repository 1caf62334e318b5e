// The files of telemetry.dir. DirectoryLock keeps two feeders from writing to one folder.
// rank_file() gives names. JsonLinesFile writes lines in large pieces, on the telemetry thread.
// With a bound on the size it keeps the latest lines: a file that reaches half of the bound is
// renamed to .earlier and a new one begun. No failure here ends a run: a full disk costs lines,
// which are counted and reported once.

#include "run_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "bounded_lines.hpp"
#include "run_log.hpp"

namespace forebay::measure {
namespace {

constexpr std::array<std::string_view, 5> kKinds{"run", "steps", "intervals", "quarantine", "decisions"};

constexpr std::size_t kMostWaiting = std::size_t{64} << 10U;  // bytes of lines not written yet

// Files that cannot be removed are ignored here. A rank's own are reported when it opens them.
template <typename IsStale>
void remove_listed(const std::string& dir, IsStale&& is_stale) {
  std::vector<std::filesystem::path> stale;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::optional<RankFileName> name = rank_file_name(it->path().filename().native());
    if (name && is_stale(*name)) stale.push_back(it->path());
  }
  for (const auto& path : stale) std::filesystem::remove(path, error);
}

// For a job that is restarted right after its predecessor was killed. A dying process keeps its
// locks until the system has reclaimed its memory, and the ranks of a killed mpirun outlive it.
constexpr std::chrono::seconds kPatience{2};

std::string who_am_i() {
  const std::string host = host_name();
  return "process " + std::to_string(::getpid()) + (host.empty() ? "" : " on " + host);
}

std::string text_of(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "another process";
}

// The text only serves error messages.
void put_text(int descriptor, const std::string& text) {
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

std::filesystem::path rank_file(const std::string& dir, std::string_view kind, std::uint32_t rank) {
  return std::filesystem::path(dir) / (std::string(kind) + "." + std::to_string(rank) + ".jsonl");
}

std::filesystem::path earlier_file(std::filesystem::path file) { return file.replace_extension(".earlier.jsonl"); }

std::optional<RankFileName> rank_file_name(std::string_view name) {
  static constexpr std::string_view kExtension = ".jsonl";
  if (!name.ends_with(kExtension)) return std::nullopt;
  name.remove_suffix(kExtension.size());
  for (const std::string_view kind : kKinds) {
    if (!name.starts_with(kind) || name.substr(kind.size(), 1) != ".") continue;
    const std::string_view digits = name.substr(kind.size() + 1);
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const std::string_view rest(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
    const bool goes_on = rest.starts_with(".from-");
    const bool is_earlier = rest == ".earlier";
    const std::string_view number = digits.substr(0, digits.size() - rest.size());
    const bool is_plain = number == "0" || !number.starts_with('0');  // rank_file() makes no others
    if (error == std::errc() && is_plain && (rest.empty() || goes_on || is_earlier)) {
      return RankFileName{.kind = kind, .rank = rank, .goes_on = goes_on, .is_earlier = is_earlier};
    }
  }
  return std::nullopt;
}

void make_run_directory(const std::string& dir) {
  if (dir.empty()) return;
  if (const auto problem = problem_of_output(dir); !problem.empty()) {
    throw ConfigError("telemetry.dir: " + printable(dir) + ": " + std::string(problem));
  }
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (!error && !std::filesystem::is_directory(dir, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw ConfigError("telemetry.dir: cannot create directory \"" + printable(dir) + "\": " + error.message() +
                      "; name a writable place, or \"\" to write no files");
  }
}

// A new run removes what an earlier one left, because readers would take both for one run. Rank 0
// also removes the files of ranks that this job does not have.
void clear_run_directory(const std::string& dir, std::uint32_t rank, std::uint32_t ranks) {
  if (dir.empty()) return;
  std::error_code error;
  for (const std::string_view kind : kKinds) {
    const std::filesystem::path file = rank_file(dir, kind, rank);
    std::filesystem::remove(file, error);
    std::filesystem::remove(earlier_file(file), error);
  }
  if (rank != 0) return;
  remove_listed(dir, [&](const RankFileName& name) { return name.goes_on || name.rank >= ranks; });
}

// flock() instead of the mere existence of a file: the system releases the lock when the process
// ends, however it ends. Failing to open is not an error here, because a folder where no file can
// be made is refused elsewhere.
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
      // The previous owner removes the file, and a lock on a file that is no longer in the folder
      // excludes nobody.
      if (!is_name_of(file, identity_of(descriptor))) continue;
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
  // A child that was forked meanwhile also has the descriptor, and with it the lock.
  ::flock(descriptor_.get(), LOCK_UN);
  descriptor_.reset();
}

// A killed job may have left half a line; appended text must begin on a new one.
FileDescriptor append_lines_to(const std::filesystem::path& file) {
  FileDescriptor opened = open_to_append(file);
  struct stat status {};
  char last = '\n';
  const bool has_text = ::fstat(opened.get(), &status) == 0 && status.st_size > 0;
  if (has_text && ::pread(opened.get(), &last, 1, status.st_size - 1) == 1 && last != '\n') write_all(opened, "\n");
  return opened;
}

struct JsonLinesFile::Impl {
  Impl(std::filesystem::path file, ConsoleLog& to, Mode mode, std::uint64_t most_bytes)
      : path(std::move(file)),
        earlier(earlier_file(path)),
        console(to),
        most(most_bytes),
        out(mode == Mode::append ? append_lines_to(path) : open_made(path)) {
    struct stat status {};
    if (::fstat(out.get(), &status) == 0 && S_ISREG(status.st_mode)) size = static_cast<std::uint64_t>(status.st_size);
  }

  // Writes what waits. What the system does not take is lost, and the next text begins on a new
  // line. So it is if there is no memory to say so.
  void hand_over() {
    std::string_view rest = waiting;
    struct Guard {
      Impl& file;
      const std::string_view& rest;
      ~Guard() {
        if (!rest.empty()) file.sound = false;
        file.drop_waiting(file.waiting.size() - rest.size());
      }
    } const guard{*this, rest};
    while (!rest.empty()) {
      const std::size_t piece = most == 0 ? rest.size() : fitting(rest);
      if (size == 0 && rest.front() == '\n') {  // the line that it would end is in the earlier file
        rest.remove_prefix(1);
        continue;
      }
      if (piece == 0) {
        failed(path.native() + " has reached telemetry.max_bytes and cannot become " + earlier.filename().native());
        break;
      }
      const ssize_t written = retry_interrupted([&] { return ::write(out.get(), rest.data(), piece); });
      if (written < 0) {
        failed(path.native() + ": cannot write: " + std::generic_category().message(errno));
        break;
      }
      size += static_cast<std::uint64_t>(written);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  // Of what waited, the system took this many bytes.
  void drop_waiting(std::size_t taken) noexcept {
    if (taken > 0) ends_within_line = waiting[taken - 1] != '\n';
    waiting.resize(ends_within_line ? 1 : 0, '\n');
    if (ends_within_line) waiting.front() = '\n';
  }

  // How many bytes of the text the file may take now, in whole lines; 0 if none.
  std::size_t fitting(std::string_view text) {
    const std::uint64_t half = most / 2;
    std::size_t piece = whole_lines(text, half);
    if (piece > 0) return piece;
    if (size > 0 && rotate()) piece = whole_lines(text, half);
    // A line longer than half of the bound gets a file of its own.
    if (piece == 0 && size == 0) piece = text.find('\n') + 1;
    return piece > 0 ? piece : whole_lines(text, most);
  }

  // The bytes of those lines at the beginning of the text that fit into the file within `limit`.
  // The rest of a partly written line counts as a line.
  [[nodiscard]] std::size_t whole_lines(std::string_view text, std::uint64_t limit) const {
    const std::uint64_t room = limit > size ? limit - size : 0;
    if (text.size() <= room) return text.size();
    return room == 0 ? 0 : text.rfind('\n', room - 1) + 1;
  }

  // Turns the file into the earlier one and begins a new one. Returns false, with everything as it
  // was, if that is impossible. Symbolic links at either name are not followed.
  bool rotate() {
    if (::rename(path.c_str(), earlier.c_str()) != 0) {
      tell(path.native() + " cannot become " + earlier.filename().native() + ": " +
           std::generic_category().message(errno) + "; it grows up to telemetry.max_bytes, the run continues");
      return false;
    }
    try {
      out = open_made(path);
    } catch (const Error& error) {
      // The open descriptor is still that of the renamed file.
      (void)::rename(earlier.c_str(), path.c_str());
      tell(path.native() + ": " + error.what() + "; the file of before is written to, the run continues");
      return false;
    } catch (...) {  // no memory
      (void)::rename(earlier.c_str(), path.c_str());
      throw;
    }
    size = 0;
    rotated = true;
    return true;
  }

  void failed(const std::string& cause) {
    sound = false;
    tell(cause + "; lines may be missing from it, the run continues");
  }

  void no_memory() noexcept {
    sound = false;
    try {
      failed(path.native() + ": no memory");
    } catch (...) {  // NOLINT(bugprone-empty-catch): the lines are counted anyway
    }
  }

  void tell(const std::string& text) {
    if (reported) return;
    console.warn(printable(text));
    reported = true;
  }

  const std::filesystem::path path;
  const std::filesystem::path earlier;
  ConsoleLog& console;
  const std::uint64_t most;  // bytes of both files; 0: no bound
  FileDescriptor out;
  std::uint64_t size = 0;  // bytes of the file
  std::string waiting;
  bool ends_within_line = false;  // the system took only a part of a line
  std::uint64_t unsynced = 0;     // lines written since the last sync()
  bool sound = true;              // nothing has failed since then
  bool reported = false;
  bool rotated = false;
  std::atomic<std::uint64_t> lost{0};
};

JsonLinesFile::JsonLinesFile(const std::filesystem::path& path, ConsoleLog& console, Mode mode,
                             std::uint64_t most_bytes) {
  try {
    impl_ = std::make_unique<Impl>(path, console, mode, most_bytes);
  } catch (const Error& error) {
    throw ConfigError("telemetry.dir: " + printable(path.native()) + ": " + error.what() +
                      "; name a writable directory, or \"\" to write no files");
  }
}

JsonLinesFile::~JsonLinesFile() {
  try {
    sync();
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to report a failure
  }
}

void JsonLinesFile::write(std::string_view lines, std::uint64_t count) {
  if (count == 0) return;
  impl_->unsynced += count;
  try {
    impl_->waiting += lines;
    if (impl_->waiting.size() >= kMostWaiting) impl_->hand_over();
  } catch (const std::bad_alloc&) {
    impl_->no_memory();
  }
}

// Writes what waits, and checks that the file still exists. Does not fsync(): a crash of the
// machine may cost the last second.
void JsonLinesFile::sync() {
  if (impl_->unsynced == 0) return;
  try {
    impl_->hand_over();
    // Writing to a file that was removed or renamed succeeds without an error.
    struct stat named {};
    struct stat ours {};
    if (::stat(impl_->path.c_str(), &named) != 0 || ::fstat(impl_->out.get(), &ours) != 0 ||
        named.st_ino != ours.st_ino || named.st_dev != ours.st_dev) {
      impl_->failed(impl_->path.native() + " is gone, or another file has its name");
    }
  } catch (const std::bad_alloc&) {
    impl_->no_memory();
  }
  if (!impl_->sound) impl_->lost.fetch_add(impl_->unsynced, std::memory_order_relaxed);
  impl_->sound = true;
  impl_->unsynced = 0;
}

std::uint64_t JsonLinesFile::lost() const noexcept { return impl_->lost.load(std::memory_order_relaxed); }

bool JsonLinesFile::has_rotated() const noexcept { return impl_->rotated; }

}  // namespace forebay::measure

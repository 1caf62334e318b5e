// States on disk. write_state() writes to a temporary file and renames it, so that there is a whole
// state at every moment. StateWriter does so on a thread of its own, because a step must not wait
// for a disk. One state is being written and one more may wait; a newer one for the same file
// replaces the waiting one. The hook of a waiting caller is called every few milliseconds, without
// the lock, and may throw.

#include "state_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <forebay/error.hpp>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_io.hpp"
#include "base/output_file.hpp"
#include "base/thread.hpp"

namespace forebay::order {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestState = std::size_t{16} << 20U;
constexpr std::string_view kSaving = ".saving-";
constexpr std::size_t kUnique = 6;  // characters that replace_file() adds

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_save(const fs::path& file, const std::string& what, int error) {
  throw Error("cannot save the state to " + file.string() + ": " + what + ": " + reason(error));
}

[[noreturn]] void cannot_resume(const fs::path& file, const std::string& what) {
  throw ConfigError("cannot read the state " + file.string() + ": " + what);
}

// Whether a killed job left this file behind. Only the exact names that replace_file() makes
// qualify, so that no user's copy is ever removed.
bool is_being_saved(std::string_view name, std::string_view file) {
  if (!name.starts_with(file)) return false;
  name.remove_prefix(file.size());
  if (!name.starts_with(kSaving)) return false;
  name.remove_prefix(kSaving.size());
  return name.size() == kUnique && std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0; });
}

// A leftover that cannot be removed does no harm; it is not mistaken for a state.
void remove_leftovers(const fs::path& file) {
  const std::string name = file.filename().string();
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(folder_of(file), error), end; !error && it != end; it.increment(error)) {
    if (is_being_saved(it->path().filename().native(), name)) leftovers.push_back(it->path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover, error);
}

}  // namespace

void write_state(const fs::path& path, std::string_view text) {
  fs::path file;
  try {
    file = replaceable(path);
  } catch (const Error& failed) {
    throw Error("cannot save the state to " + path.string() + ": " + failed.what());
  }
  std::error_code error;
  fs::create_directories(folder_of(file), error);
  if (error) cannot_save(file, "cannot create its folder", error.value());
  remove_leftovers(file);
  try {
    replace_file(file, std::as_bytes(std::span(text)), kSaving);
  } catch (const Error& failed) {
    throw Error("cannot save the state to " + file.string() + ": " + failed.what());
  }
}

std::optional<std::string> read_state(const fs::path& file) {
  if (const auto problem = problem_of_output(file.native()); !problem.empty()) {
    cannot_resume(file, std::string(problem));
  }
  // O_NONBLOCK, because opening a FIFO without a writer would block.
  const FileDescriptor descriptor(
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
    if (text.size() > kLargestState) cannot_resume(file, "it has more than 16 MiB, and no state is that large");
  }
}

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StateWriter::save(std::filesystem::path file, std::string text, const Hook& while_waiting) {
  if (!thread_.joinable()) thread_ = start_thread("forebay-save", [this] { run(); });
  std::unique_lock lock(mutex_);
  wait(lock, while_waiting, [&] { return !waiting_ || waiting_->file == file; });
  waiting_ = Order{std::move(file), std::move(text)};
  lock.unlock();
  changed_.notify_all();
}

void StateWriter::finish(const Hook& while_waiting) {
  std::unique_lock lock(mutex_);
  wait(lock, while_waiting, [&] { return !waiting_ && !is_writing_; });
}

void StateWriter::wait(std::unique_lock<std::mutex>& lock, const Hook& while_waiting,
                       const std::function<bool()>& is_done) {
  // A choice: the interval at which the hook, which looks for signals, is called.
  constexpr std::chrono::milliseconds kSlice{10};
  if (!while_waiting) return changed_.wait(lock, is_done);
  while (!changed_.wait_for(lock, kSlice, is_done)) {
    lock.unlock();
    while_waiting();
    lock.lock();
  }
}

std::string StateWriter::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, {});
}

// An error is kept until take_error(); later states are tried nevertheless.
void StateWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return waiting_ || is_closed_; });
    if (!waiting_) return;
    const Order order = std::move(*waiting_);
    waiting_.reset();
    is_writing_ = true;
    lock.unlock();
    changed_.notify_all();
    std::string error;
    try {
      write_(order.file, order.text);
    } catch (const std::exception& failure) {
      error = failure.what();
    } catch (...) {
      error = "cannot save the state to " + order.file.string() + ": an error of unknown type";
    }
    lock.lock();
    is_writing_ = false;
    if (error_.empty()) error_ = std::move(error);
    changed_.notify_all();
  }
}

}  // namespace forebay::order

// Retries reads outside of a run (indexing, packing), where no watchdog limits them: a failing
// store is retried for the limit of StorePatience, 60 s by default; a truncated file, or a lack of
// descriptors, gets four attempts. Pauses double from 10 ms to a second. The time of attempts that
// hang counts. A line is printed at most once a minute for the whole process.
// docs/decisions/0025-a-store-that-fails-is-slow.md has the reasons.

#include "retry.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "clock.hpp"
#include "file_io.hpp"
#include "text.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;

// Four attempts for what resolves itself within moments, such as a file still being written
// (docs/decisions/0025-a-store-that-fails-is-slow.md). The pauses, which double, and the interval
// of the printed lines are chosen.
constexpr int kBriefAttempts = 4;
constexpr std::chrono::nanoseconds kFirstPause = 10ms;
constexpr std::chrono::nanoseconds kLongestPause = 1s;
constexpr std::chrono::nanoseconds kToldAfterPauses = 1s;
constexpr std::chrono::nanoseconds kBetweenLines = 60s;

constexpr std::chrono::nanoseconds kPollEvery = 100ms;

// Of this thread: what waits for a store lies below many calls that know nothing of who waits for them.
thread_local InterruptCheck* current_check = nullptr;

std::string whole_seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(time).count()) + " s";
}

// Errors that disappear within moments or not at all.
bool is_brief(const SampleError& error) noexcept {
  return is_truncated(error) || dynamic_cast<const NoDescriptor*>(&error) != nullptr;
}

// What ends the patience of the reads around it as well: they would wait as long again.
class OutOfPatience final : public SampleError {
 public:
  explicit OutOfPatience(const std::string& what) : SampleError(what, Kind::transient) {}
};

// The name, for messages, of a file whose path was not kept.
std::string name_of(const OpenFile& file) {
  if (file.remote != nullptr) return file.remote->name();
  std::array<char, 4096> path;
  const auto length =
      ::readlink(("/proc/self/fd/" + std::to_string(file.descriptor.get())).c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "a file";
}

}  // namespace

// A thread that waits for a store may be a program's, which wants to hear of signals, or one of a
// loop or a pool that has been told to end.
InterruptCheck::InterruptCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(current_check, this)) {}

InterruptCheck::~InterruptCheck() { current_check = outer_; }

void InterruptCheck::poll() {
  InterruptCheck* const mine = current_check;
  if (mine == nullptr || !mine->check_ || std::chrono::steady_clock::now() < mine->last_ + kPollEvery) return;
  mine->last_ = std::chrono::steady_clock::now();
  mine->check_();
}

void InterruptCheck::sleep_for(std::chrono::nanoseconds time) {
  for (; time > std::chrono::nanoseconds::zero(); time -= kPollEvery) {
    poll();
    std::this_thread::sleep_for(std::min(time, kPollEvery));
  }
}

void StorePatience::tell_on_stderr(const std::string& line) {
  // All threads of the process share one stderr. Relaxed: no other data depend on this number.
  static std::atomic<std::int64_t> next{0};
  const std::int64_t now = steady_ns();
  std::int64_t due = next.load(std::memory_order_relaxed);
  if (now < due || !next.compare_exchange_strong(due, now + kBetweenLines.count(), std::memory_order_relaxed)) return;
  std::fprintf(stderr, "%s[forebay] %s\n", ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", line.c_str());
}

void FailedReads::wait(std::string_view name, const SampleError& error) {
  if (const auto* const last = dynamic_cast<const OutOfPatience*>(&error)) throw *last;
  if (count_++ > 0) taken_ += std::chrono::steady_clock::now() - mark_;
  brief_ = patience_.limit.count() == 0 || is_brief(error) ? brief_ + 1 : 0;
  const std::string times = "read " + std::to_string(count_) + " times)";
  if (brief_ >= kBriefAttempts) {
    throw SampleError(error.what() + (" (" + times), SampleError::Kind::transient);
  }
  if (brief_ == 0 && taken_ >= patience_.limit) {
    throw OutOfPatience(error.what() + (" (for " + whole_seconds(taken_) + ", " + times));
  }
  if (brief_ == 0 && taken_ >= kToldAfterPauses && !is_told_) {
    is_told_ = true;
    patience_.tell("reads have failed for " + whole_seconds(taken_) + ": " + printable(name) + ": " +
                   printable(error.what()) + "; they are repeated until they succeed, for " +
                   whole_seconds(patience_.limit) + " at most");
  }
  const auto doublings = std::min<std::uint64_t>(brief_ > 0 ? static_cast<std::uint64_t>(brief_) : count_, 8) - 1;
  const std::chrono::nanoseconds pause = std::min(kFirstPause * (std::int64_t{1} << doublings), kLongestPause);
  InterruptCheck::sleep_for(pause);
  taken_ += pause;
  mark_ = std::chrono::steady_clock::now();
}

void read_at_patiently(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes) {
  read_patiently([&] { return name_of(file); }, [&] { read_at(file, offset, bytes); });
}

}  // namespace forebay

// The kernel side of a WaitPoint: a futex on a 32-bit word that counts notifications, with a bit
// that says whether a thread may be parked. wait.hpp has the protocol and its invariants (W1 to
// W3), and avoids the kernel for as long as it can. Notifying may happen inside a signal handler:
// nothing here allocates or locks, and errno is preserved.

#include "wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <ctime>

namespace forebay {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the counter as a plain 32-bit word");

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) noexcept {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG, value, timeout,
                   nullptr, 0);
}

timespec to_timespec(WaitPoint::Clock::duration duration) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(duration - seconds);
  return {.tv_sec = static_cast<std::time_t>(seconds.count()), .tv_nsec = static_cast<long>(rest.count())};
}

// Signal handlers may notify, so errno is preserved.
class KeepErrno {
 public:
  KeepErrno() noexcept : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

}  // namespace

// Tells a processor with two threads per core that this one is only waiting.
void WaitPoint::pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void WaitPoint::yield() noexcept { ::sched_yield(); }

void WaitPoint::wake_all() noexcept {
  const KeepErrno keep;
  word_.fetch_and(~kParked, std::memory_order_acq_rel);  // W2
  futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
}

// The kernel compares word_ with `seen` under its own lock, so an increment between the caller's
// load and the sleep makes it return at once. The caller's loop handles interrupted and spurious
// wake-ups. False at the deadline.
bool WaitPoint::park(std::uint32_t seen, Clock::time_point deadline) noexcept {
  const KeepErrno keep;
  if (deadline == Clock::time_point::max()) {
    futex(word_, FUTEX_WAIT, seen, nullptr);
    return true;
  }
  const auto left = deadline - Clock::now();
  if (left <= Clock::duration::zero()) return false;
  const timespec timeout = to_timespec(left);
  return futex(word_, FUTEX_WAIT, seen, &timeout) == 0 || errno != ETIMEDOUT;
}

}  // namespace forebay

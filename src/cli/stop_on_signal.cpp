#include "stop_on_signal.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

namespace forebay {
namespace {

// A signal handler can only reach static storage.
std::atomic<bool> stop_flag{false};
std::atomic<bool> launcher_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> late_exit_code{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void exit_late(int /*signal*/) { ::_exit(late_exit_code.load(std::memory_order_relaxed)); }

extern "C" void set_stop_flag(int signal, siginfo_t* info, void* /*context*/) {
  if (signal == SIGTERM && info->si_pid == ::getppid()) launcher_flag.store(true, std::memory_order_relaxed);
  stop_flag.store(true, std::memory_order_relaxed);
}

}  // namespace

StopOnSignal::StopOnSignal(std::span<const int> signals) {
  stop_flag = false;
  launcher_flag = false;
  struct sigaction action {};
  action.sa_sigaction = set_stop_flag;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int signal : signals.first(std::min(signals.size(), kMost))) {
    signals_[count_] = signal;
    ::sigaction(signal, &action, &previous_[count_]);
    ++count_;
  }
}

StopOnSignal::~StopOnSignal() {
  for (std::size_t i = 0; i < count_; ++i) ::sigaction(signals_[i], &previous_[i], nullptr);
}

void exit_at_the_latest(std::chrono::milliseconds after, int exit_code) {
  late_exit_code = exit_code;
  struct sigaction action {};
  action.sa_handler = exit_late;
  ::sigaction(SIGALRM, &action, nullptr);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
  itimerval timer{};
  timer.it_value.tv_sec = seconds.count();
  timer.it_value.tv_usec = std::chrono::microseconds(after - seconds).count();
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

const std::atomic<bool>& StopOnSignal::flag() noexcept { return stop_flag; }
bool StopOnSignal::launcher_ends_the_job() noexcept { return launcher_flag.load(std::memory_order_relaxed); }

}  // namespace forebay

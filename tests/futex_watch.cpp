#include "futex_watch.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdarg>

namespace forebay::testing {
namespace {

thread_local FutexWatch* watch = nullptr;

}  // namespace

FutexWatch::OfThisThread::OfThisThread(FutexWatch& of) noexcept { watch = &of; }

FutexWatch::OfThisThread::~OfThisThread() { watch = nullptr; }

void FutexWatch::sees(long number, long operation) {
  if (number != SYS_futex) return;
  const long command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE) ++wakes;
  if (command == FUTEX_WAIT && ++waits == 1 && at_first_wait_) at_first_wait_();
}

}  // namespace forebay::testing

// Replaces the C library's function.
extern "C" long syscall(long number, ...) noexcept {
  static const auto real = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  std::array<long, 6> arguments{};
  std::va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (forebay::testing::watch != nullptr) forebay::testing::watch->sees(number, arguments[1]);
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

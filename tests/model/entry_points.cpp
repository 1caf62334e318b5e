// What scenarios, and the sources that they drive, call instead of touching memory, the kernel or
// the clock. With -fsanitize=thread the compiler turns each memory access and each atomic operation
// into a call. This file defines the functions that are called: they lead not to ThreadSanitizer
// but to the machine that runs the scenario. Outside of a scenario they do the plain operation.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <new>

#include "machine.hpp"
#include "scenario.hpp"

using forebay::model::Machine;

namespace {

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void access(const void* address, std::size_t bytes, bool is_write, const void* code) {
  if (Machine* const machine = Machine::running()) machine->access(address, bytes, is_write, code);
}

template <typename T>
T load(const volatile T* at, int order, const void* code) {
  Machine* const machine = Machine::running();
  return machine == nullptr ? __atomic_load_n(at, __ATOMIC_SEQ_CST)
                            : static_cast<T>(machine->load(at, sizeof(T), order, code));
}

template <typename T>
void store(volatile T* at, T value, int order, const void* code) {
  Machine* const machine = Machine::running();
  if (machine == nullptr) return __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
  machine->store(at, sizeof(T), value, order, code);
}

template <typename T, typename Change>
T modify(volatile T* at, int order, const void* code, const Change& change) {
  if (Machine* const machine = Machine::running()) {
    return static_cast<T>(machine->modify(at, sizeof(T), order, code, [&](std::uint64_t value) {
      return std::uint64_t{static_cast<T>(change(static_cast<T>(value)))};
    }));
  }
  T before = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(at, &before, static_cast<T>(change(before)), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return before;
}

template <typename T>
bool compare_exchange(volatile T* at, T* expected, T desired, int order, int if_not, const void* code) {
  Machine* const machine = Machine::running();
  if (machine == nullptr) {
    return __atomic_compare_exchange_n(at, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  const T before = static_cast<T>(machine->compare_exchange(at, sizeof(T), *expected, desired, order, if_not, code));
  if (before == *expected) return true;
  *expected = before;
  return false;
}

}  // namespace

#define FOREBAY_CODE __builtin_return_address(0)

#define FOREBAY_PLAIN(BYTES)                                                                    \
  void __tsan_read##BYTES(const void* at) { access(at, BYTES, false, FOREBAY_CODE); }           \
  void __tsan_write##BYTES(const void* at) { access(at, BYTES, true, FOREBAY_CODE); }           \
  void __tsan_unaligned_read##BYTES(const void* at) { access(at, BYTES, false, FOREBAY_CODE); } \
  void __tsan_unaligned_write##BYTES(const void* at) { access(at, BYTES, true, FOREBAY_CODE); }

#define FOREBAY_MODIFY(BITS, NAME, RESULT)                                                                        \
  std::uint##BITS##_t __tsan_atomic##BITS##_##NAME(volatile std::uint##BITS##_t* at, std::uint##BITS##_t operand, \
                                                   int order) {                                                   \
    return modify(at, order, FOREBAY_CODE, [&]([[maybe_unused]] auto value) { return RESULT; });                  \
  }

#define FOREBAY_ATOMIC(BITS)                                                                                          \
  std::uint##BITS##_t __tsan_atomic##BITS##_load(const volatile std::uint##BITS##_t* at, int order) {                 \
    return load(at, order, FOREBAY_CODE);                                                                             \
  }                                                                                                                   \
  void __tsan_atomic##BITS##_store(volatile std::uint##BITS##_t* at, std::uint##BITS##_t value, int order) {          \
    store(at, value, order, FOREBAY_CODE);                                                                            \
  }                                                                                                                   \
  FOREBAY_MODIFY(BITS, exchange, operand)                                                                             \
  FOREBAY_MODIFY(BITS, fetch_add, value + operand)                                                                    \
  FOREBAY_MODIFY(BITS, fetch_sub, value - operand)                                                                    \
  FOREBAY_MODIFY(BITS, fetch_and, value& operand)                                                                     \
  FOREBAY_MODIFY(BITS, fetch_or, value | operand)                                                                     \
  FOREBAY_MODIFY(BITS, fetch_xor, value ^ operand)                                                                    \
  bool __tsan_atomic##BITS##_compare_exchange_strong(volatile std::uint##BITS##_t* at, std::uint##BITS##_t* expected, \
                                                     std::uint##BITS##_t desired, int order, int if_not) {            \
    return compare_exchange(at, expected, desired, order, if_not, FOREBAY_CODE);                                      \
  }                                                                                                                   \
  bool __tsan_atomic##BITS##_compare_exchange_weak(volatile std::uint##BITS##_t* at, std::uint##BITS##_t* expected,   \
                                                   std::uint##BITS##_t desired, int order, int if_not) {              \
    return compare_exchange(at, expected, desired, order, if_not, FOREBAY_CODE);                                      \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(const void* at, std::size_t bytes) { access(at, bytes, false, FOREBAY_CODE); }
void __tsan_write_range(const void* at, std::size_t bytes) { access(at, bytes, true, FOREBAY_CODE); }
FOREBAY_PLAIN(1)
FOREBAY_PLAIN(2)
FOREBAY_PLAIN(4)
FOREBAY_PLAIN(8)
FOREBAY_PLAIN(16)
FOREBAY_ATOMIC(8)
FOREBAY_ATOMIC(16)
FOREBAY_ATOMIC(32)
FOREBAY_ATOMIC(64)
void __tsan_atomic_thread_fence(int order) {
  if (Machine* const machine = Machine::running()) machine->fence(order, FOREBAY_CODE);
}
void __tsan_atomic_signal_fence(int) {}

// Replaces the C library's function.
long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  Machine* const machine = Machine::running();
  if (machine == nullptr || number != SYS_futex) {
    static const auto call = real<long (*)(long, ...)>("syscall");
    return call(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  }
  std::optional<std::int64_t> timeout;
  const bool waits = (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
  if (const auto* const limit = waits ? reinterpret_cast<const timespec*>(arguments[3]) : nullptr) {
    timeout = limit->tv_sec * 1'000'000'000 + limit->tv_nsec;
  }
  const long result = machine->futex(reinterpret_cast<const void*>(arguments[0]), static_cast<int>(arguments[1]),
                                     static_cast<std::uint32_t>(arguments[2]), timeout);
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

int sched_yield() noexcept {
  if (Machine* const machine = Machine::running()) machine->yield();
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (Machine* const machine = Machine::running()) {
    const std::int64_t now = machine->now();
    *time = {.tv_sec = now / 1'000'000'000, .tv_nsec = now % 1'000'000'000};
    return 0;
  }
  static const auto call = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  return call(clock, time);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (Machine* const machine = Machine::running()) {
    machine->lock(mutex);
    return 0;
  }
  static const auto call = real<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  return call(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (Machine* const machine = Machine::running()) {
    machine->unlock(mutex);
    return 0;
  }
  static const auto call = real<int (*)(pthread_mutex_t*)>("pthread_mutex_unlock");
  return call(mutex);
}

}  // extern "C"

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
  if (Machine* const machine = Machine::running()) machine->allocated(memory, bytes);
  return memory;
}

}  // namespace

// Memory that was freed and allocated again belongs to its new owner alone.
void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace forebay::model {

void spawn(const char* name, std::function<void()> body) { Machine::running()->spawn(name, std::move(body)); }
void join() { Machine::running()->join(); }
void until_quiet() { Machine::running()->until_quiet(); }
void require(bool holds, const std::string& what) {
  if (!holds) Machine::running()->fail(what);
}
void outcome(std::string text) { Machine::running()->end_as(std::move(text)); }
std::int64_t now_ns() { return Machine::running()->clock(); }
void Queue::push(std::uint64_t element) { Machine::running()->push(this, element); }
bool Queue::pop(std::uint64_t& element) { return Machine::running()->pop(this, element); }
void Queue::close() { Machine::running()->close(this); }

}  // namespace forebay::model

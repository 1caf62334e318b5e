#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
#include <csignal>

#include "support.hpp"
#include "thread_limit.hpp"

namespace {

// Global, because pthread_create() has no object in which to keep them.
std::atomic<bool> limited{false};  // NOLINT
std::atomic<bool> refuses_all{false};
std::atomic<int> left{0};  // NOLINT
std::atomic<int> refusals{0};

bool is_refused() {
  if (!limited) return false;
  const int before = left.fetch_sub(1);
  if (before > 0 || (before < 0 && !refuses_all)) return false;
  ++refusals;
  return true;
}

void end_what_hangs(int /*signal*/) {
  constexpr char kText[] = "what was refused a thread hangs\n";
  if (::write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) std::abort();
  std::abort();
}

std::size_t count_entries(const char* folder) {
  const auto entries = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

// Takes precedence over the system's function: the linker prefers the program's own.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  if (is_refused()) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}

namespace forebay::testing {

ThreadLimit::ThreadLimit(int allowed, Refuses refuses) {
  left = allowed;
  refusals = 0;
  refuses_all = refuses == Refuses::all;
  std::signal(SIGALRM, end_what_hangs);
  ::alarm(kSanitized ? 600 : 60);
  limited = true;
}

ThreadLimit::~ThreadLimit() {
  limited = false;
  ::alarm(0);
}

int ThreadLimit::refused() noexcept { return refusals; }

std::size_t count_threads() { return count_entries("/proc/self/task"); }
std::size_t count_files() { return count_entries("/proc/self/fd"); }

void check_nothing_is_left(std::size_t threads, std::size_t files) {
  // It takes the system a moment to remove a thread that was joined.
  CHECK(eventually([&] { return count_threads() <= threads; }));
  CHECK(count_files() == files);
}

void check_refusal(const std::string& what) {
  CAPTURE(what);
  CHECK(what.find("cannot start the thread \"forebay-") != std::string::npos);
  CHECK(what.find("Resource temporarily unavailable") != std::string::npos);
  CHECK(what.find("ulimit -u is ") != std::string::npos);
  CHECK(what.find("pids.max") != std::string::npos);
  CHECK(what.find("workers.decode") != std::string::npos);
}

}  // namespace forebay::testing

#include "limits.hpp"

#include <sys/resource.h>
#include <algorithm>
#include <cerrno>

#include "text.hpp"

namespace forebay {
namespace {

rlim_t soft_limit(decltype(RLIMIT_AS) resource) noexcept {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

// Advice for an error caused by a limit; empty for all others.
std::string limit_behind(int error) {
  switch (error) {
    case EMFILE:
      return " (this process may have " + std::to_string(open_file_limit()) +
             " files open: raise ulimit -n, or close files that the program does not need)";
    case ENFILE: return " (the machine has as many files open as fs.file-max allows)";
    case ENOMEM: return memory_limit();
    case ENOLCK: return " (the machine or its file server has no more locks)";
    default: return {};
  }
}

std::string memory_limit() {
  const rlim_t addresses = soft_limit(RLIMIT_AS);
  if (addresses != RLIM_INFINITY) {
    return " (ulimit -v allows this process " + mebibytes(addresses) + " of address space: raise it)";
  }
  const rlim_t data = soft_limit(RLIMIT_DATA);
  if (data != RLIM_INFINITY) return " (ulimit -d allows this process " + mebibytes(data) + " of data: raise it)";
  return {};
}

Error out_of_memory(std::string_view for_what) {
  const std::string what = "there is no memory " + std::string(for_what) + memory_limit() +
                           "; give the process more, or lower queue.capacity, queue.pool, workers.bytes or "
                           "workers.decode";
  Error error(what);
  return error;
}

unsigned long open_file_limit() noexcept { return soft_limit(RLIMIT_NOFILE); }

// Chosen: enough for the files that commands keep open.
void raise_open_file_limit() noexcept {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, kEnough)) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace forebay

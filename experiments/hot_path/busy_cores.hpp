#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <stdexcept>
#include <vector>

namespace forebay::bench {

// Processes that do nothing but compute, so many for each core that this one may use, as beside other people's jobs.
// They end with this object, or with the thread that made it. REQUIRES: the process has one thread.
class BusyCores {
 public:
  explicit BusyCores(int per_core) {
    cpu_set_t mask;
    const int cores = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    for (int i = 0; i < per_core * cores; ++i) start_one();
  }
  ~BusyCores() {
    for (const pid_t process : processes_) ::kill(process, SIGKILL);
    for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

  [[nodiscard]] std::size_t processes() const noexcept { return processes_.size(); }

 private:
  void start_one() {
    const pid_t parent = ::getpid();
    const pid_t process = ::fork();
    if (process < 0) throw std::runtime_error("fork() failed: no more processes are allowed here");
    if (process > 0) return processes_.push_back(process);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile unsigned work = 0;
    while (::getppid() == parent) {
      for (unsigned i = 0; i < 100'000'000; ++i) work = work + i;
    }
    ::_exit(0);
  }

  std::vector<pid_t> processes_;
};

}  // namespace forebay::bench

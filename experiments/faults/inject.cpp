// Runs a command and lets one of its system calls fail, transfer less than it was asked to, or be the last.
//   inject --count --after TEXT -- COMMAND...
//   inject --call NAME --fault FAULT --at N [--times K] --after TEXT -- COMMAND...
// Calls are counted over all threads and children, from the first open of a path that contains TEXT. FAULT is the name
// of an error, short, kill (before the call) or killed (after it). --times 0: every call from the Nth on.
// The calls are stopped by a seccomp filter and changed by ptrace, so that nothing depends on the C library, other
// calls run at full speed, and a short transfer is a real one. x86-64. README.md says what it is for.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Call {
  std::string_view name;
  std::uint64_t number;
};
constexpr std::array kCalls{Call{"openat", SYS_openat},
                            Call{"read", SYS_read},
                            Call{"pread64", SYS_pread64},
                            Call{"preadv", SYS_preadv},
                            Call{"readv", SYS_readv},
                            Call{"write", SYS_write},
                            Call{"pwrite64", SYS_pwrite64},
                            Call{"writev", SYS_writev},
                            Call{"fsync", SYS_fsync},
                            Call{"fdatasync", SYS_fdatasync},
                            Call{"rename", SYS_rename},
                            Call{"renameat", SYS_renameat},
                            Call{"unlink", SYS_unlink},
                            Call{"unlinkat", SYS_unlinkat},
                            Call{"link", SYS_link},
                            Call{"mkdir", SYS_mkdir},
                            Call{"fchmod", SYS_fchmod},
                            Call{"ftruncate", SYS_ftruncate},
                            Call{"flock", SYS_flock},
                            Call{"fallocate", SYS_fallocate},
                            Call{"newfstatat", SYS_newfstatat},
                            Call{"fstat", SYS_fstat},
                            Call{"lseek", SYS_lseek},
                            Call{"getdents64", SYS_getdents64},
                            Call{"close", SYS_close},
                            Call{"mmap", SYS_mmap},
                            Call{"mremap", SYS_mremap},
                            Call{"brk", SYS_brk},
                            Call{"mprotect", SYS_mprotect},
                            Call{"madvise", SYS_madvise},
                            Call{"clone3", SYS_clone3},
                            Call{"futex", SYS_futex},
                            Call{"clock_nanosleep", SYS_clock_nanosleep}};

struct Name {
  std::string_view name;
  int error;
};
constexpr std::array kErrors{Name{"ENOSPC", ENOSPC}, Name{"EIO", EIO},       Name{"EINTR", EINTR},
                             Name{"EMFILE", EMFILE}, Name{"ENOMEM", ENOMEM}, Name{"EACCES", EACCES},
                             Name{"EAGAIN", EAGAIN}, Name{"EDQUOT", EDQUOT}, Name{"ENOLCK", ENOLCK}};

struct Plan {
  bool is_count = false;
  std::string call;
  std::string fault;
  std::uint64_t at = 1;
  std::uint64_t times = 1;
  std::string after;
  std::vector<char*> command;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "inject: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(120);
}

std::optional<int> error_called(std::string_view name) {
  const auto* const found = std::ranges::find(kErrors, name, &Name::name);
  return found == kErrors.end() ? std::nullopt : std::optional(found->error);
}

std::optional<Plan> parse(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--") {
      plan.command.assign(argv + i + 1, argv + argc);
      plan.command.push_back(nullptr);
      break;
    }
    if (name == "--count") {
      plan.is_count = true;
      continue;
    }
    if (++i == argc) return std::nullopt;
    if (name == "--call") plan.call = argv[i];
    if (name == "--fault") plan.fault = argv[i];
    if (name == "--at") plan.at = std::strtoull(argv[i], nullptr, 10);
    if (name == "--times") plan.times = std::strtoull(argv[i], nullptr, 10);
    if (name == "--after") plan.after = argv[i];
  }
  const bool is_known =
      std::ranges::find(kCalls, plan.call, &Call::name) != kCalls.end() &&
      (plan.fault == "short" || plan.fault == "kill" || plan.fault == "killed" || error_called(plan.fault));
  if (plan.command.size() < 2 || plan.after.empty() || (!plan.is_count && !is_known)) return std::nullopt;
  return plan;
}

// In the child: stops for the tracer at each of the calls, and at no other.
void install_filter(const Plan& plan) {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : kCalls) {
    if (!plan.is_count && call.name != plan.call && call.name != "openat") continue;
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call.number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no_new_privs");
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) die("seccomp");
}

std::string text_at(pid_t thread, std::uint64_t address) {
  std::array<char, 512> text{};
  iovec mine{.iov_base = text.data(), .iov_len = text.size() - 1};
  iovec there{.iov_base = reinterpret_cast<void*>(address), .iov_len = text.size() - 1};  // NOLINT
  if (::process_vm_readv(thread, &mine, 1, &there, 1, 0) < 0) return {};
  return text.data();
}

class Tracer {
 public:
  Tracer(const Plan& plan, pid_t child) : plan_(plan), child_(child) {}

  // Until no traced thread is left. The command's wait status.
  int follow() {
    while (true) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return status_;
      if (!WIFSTOPPED(status)) {
        restore_.erase(thread);
        if (thread == child_) status_ = status;
        continue;
      }
      stopped(thread, status);
    }
  }

  void print_counts() const {
    for (const auto& [call, count] : counts_) std::printf("%s %llu\n", std::string(call).c_str(), count);
  }
  [[nodiscard]] unsigned long long done() const { return done_; }

 private:
  // What was changed of the arguments, to be put back: programs may rely on registers that a call keeps.
  struct Changed {
    std::uint64_t first = 0;  // of a break
    std::uint64_t count = 0;  // of a short transfer
    std::uint64_t piece = 0;  // address of the only piece's length; 0 = `count` was the argument
  };

  void stopped(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    const int event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) return at_call(thread);
    if (signal == (SIGTRAP | 0x80)) return after_call(thread);
    // Of a group stop and of a new thread there is no signal to pass on.
    ::ptrace(PTRACE_CONT, thread, 0, event != 0 ? 0 : signal);
  }

  void at_call(pid_t thread) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0) return;  // it was killed
    const auto* const call = std::ranges::find(kCalls, registers.orig_rax, &Call::number);
    if (!has_begun_ && registers.orig_rax == SYS_openat) {
      has_begun_ = text_at(thread, registers.rsi).find(plan_.after) != std::string::npos;
    }
    const bool counts = has_begun_ && call != kCalls.end() && (plan_.is_count || call->name == plan_.call);
    if (!counts || never_fails(registers)) return resume(thread, PTRACE_CONT);
    const std::uint64_t number = ++counts_[call->name];
    const bool is_hit = !plan_.is_count && number >= plan_.at && (plan_.times == 0 || number < plan_.at + plan_.times);
    if (!is_hit) return resume(thread, PTRACE_CONT);
    ++done_;
    hit(thread, registers);
  }

  // Only waits on a futex can be interrupted, and only a break that is moved can be refused.
  static bool never_fails(const user_regs_struct& registers) {
    constexpr std::uint64_t kCommand = FUTEX_CMD_MASK & 0xffU;
    const std::uint64_t command = registers.rsi & kCommand;
    if (registers.orig_rax == SYS_brk) return registers.rdi == 0;
    return registers.orig_rax == SYS_futex && command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET;
  }

  void hit(pid_t thread, user_regs_struct& registers) {
    if (plan_.fault == "kill") {
      ::kill(child_, SIGKILL);
      return resume(thread, PTRACE_CONT);
    }
    if (plan_.fault == "killed") {
      restore_[thread] = {};
      return resume(thread, PTRACE_SYSCALL);
    }
    if (plan_.fault == "short") return shorten(thread, registers);
    if (registers.orig_rax == SYS_brk) {
      // It fails by giving back the break as it was, which is what asking for it does.
      restore_[thread] = {.first = registers.rdi};
      registers.rdi = 0;
      ::ptrace(PTRACE_SETREGS, thread, 0, &registers);
      return resume(thread, PTRACE_SYSCALL);
    }
    registers.orig_rax = ~0ULL;  // no call at all
    registers.rax = static_cast<unsigned long long>(-static_cast<long long>(*error_called(plan_.fault)));
    ::ptrace(PTRACE_SETREGS, thread, 0, &registers);
    resume(thread, PTRACE_CONT);
  }

  void shorten(pid_t thread, user_regs_struct& registers) {
    const bool is_vector =
        registers.orig_rax == SYS_preadv || registers.orig_rax == SYS_readv || registers.orig_rax == SYS_writev;
    Changed changed{.count = registers.rdx};
    if (is_vector && registers.rdx == 1) {
      changed.piece = registers.rsi + offsetof(iovec, iov_len);
      changed.count = static_cast<std::uint64_t>(::ptrace(PTRACE_PEEKDATA, thread, changed.piece, 0));
      if (changed.count < 2) return resume(thread, PTRACE_CONT);
      ::ptrace(PTRACE_POKEDATA, thread, changed.piece, changed.count / 2);
    } else {
      if (registers.rdx < 2) return resume(thread, PTRACE_CONT);
      registers.rdx /= 2;
      ::ptrace(PTRACE_SETREGS, thread, 0, &registers);
    }
    restore_[thread] = changed;
    resume(thread, PTRACE_SYSCALL);
  }

  void after_call(pid_t thread) {
    const auto found = restore_.find(thread);
    if (found == restore_.end()) return resume(thread, PTRACE_CONT);
    const Changed changed = found->second;
    restore_.erase(found);
    if (plan_.fault == "killed") {
      ::kill(child_, SIGKILL);
    } else if (changed.piece != 0) {
      ::ptrace(PTRACE_POKEDATA, thread, changed.piece, changed.count);
    } else {
      user_regs_struct registers{};
      if (::ptrace(PTRACE_GETREGS, thread, 0, &registers) == 0) {
        (changed.first != 0 ? registers.rdi : registers.rdx) = changed.first != 0 ? changed.first : changed.count;
        ::ptrace(PTRACE_SETREGS, thread, 0, &registers);
      }
    }
    resume(thread, PTRACE_CONT);
  }

  static void resume(pid_t thread, __ptrace_request how) { ::ptrace(how, thread, 0, 0); }

  const Plan& plan_;
  const pid_t child_;
  int status_ = 0;
  bool has_begun_ = false;
  std::map<std::string_view, unsigned long long> counts_;
  unsigned long long done_ = 0;
  std::map<pid_t, Changed> restore_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Plan> plan = parse(argc, argv);
  if (!plan) {
    std::fputs("usage: inject (--count | --call NAME --fault FAULT --at N [--times K]) --after TEXT -- COMMAND...\n",
               stderr);
    return 120;
  }
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    ::raise(SIGSTOP);  // until it is traced
    install_filter(*plan);
    ::execvp(plan->command[0], plan->command.data());
    die(plan->command[0]);
  }
  int status = 0;
  if (::waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) die("waitpid");
  constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  if (::ptrace(PTRACE_SEIZE, child, 0, kOptions) != 0) die("ptrace");
  ::kill(child, SIGCONT);
  Tracer tracer(*plan, child);
  status = tracer.follow();
  if (plan->is_count) tracer.print_counts();
  // After everything that the command wrote itself.
  std::fprintf(stderr, "inject: %llu calls changed\n", tracer.done());
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.hpp"

extern char** environ;

namespace forebay::testing {

// Whether the process is gone, or a zombie that its parent has not collected yet.
inline bool has_ended(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

// The environment, with a separate folder for mpirun's session files: if two mpiruns create the
// common one at the same moment, one fails.
class EnvironmentForMpi {
 public:
  explicit EnvironmentForMpi(const std::filesystem::path& folder) : folder_(kName + folder.string()) {
    std::filesystem::create_directory(folder);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with(kName)) entries_.push_back(*entry);
    }
    entries_.push_back(folder_.data());
    entries_.push_back(nullptr);
  }
  [[nodiscard]] char** entries() noexcept { return entries_.data(); }

 private:
  static constexpr const char* kName = "OMPI_MCA_orte_tmpdir_base=";

  std::string folder_;
  std::vector<char*> entries_;
};

// Starts a program with its output in a file; the destructor kills it if it still runs.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& output) : output_(output) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    EnvironmentForMpi environment(output.string() + ".mpi");
    if (::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environment.entries()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ <= 0 || ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] std::string output() const { return read_text(output_); }

  // The exit code, 128 + the signal that ended it, or -1 if it still runs after the limit.
  int wait(std::chrono::seconds limit = std::chrono::seconds(120)) {
    if (pid_ <= 0) return -1;
    pollfd ended{.fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(limit).count()));
    ::close(ended.fd);
    if (ready != 1) return -1;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Its child processes that still exist.
  [[nodiscard]] std::vector<pid_t> children() const {
    std::vector<pid_t> pids;
    const std::string pid = std::to_string(pid_);
    std::istringstream in(read_text("/proc/" + pid + "/task/" + pid + "/children"));
    for (pid_t child = 0; in >> child;) pids.push_back(child);
    return pids;
  }

 private:
  std::filesystem::path output_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

// How many processes a test kills: FOREBAY_KILLS, if somebody has the time.
inline int kills(int usual) {
  const char* const more = std::getenv("FOREBAY_KILLS");
  return more == nullptr ? usual : std::atoi(more);
}

// How a program ended, and what it wrote to stdout and stderr.
struct Ended {
  int code;
  std::string output;

  [[nodiscard]] bool says(std::string_view text) const { return contains(output, text); }
};

// The forebay command with these arguments.
inline Ended run_command(std::vector<std::string> arguments) {
  const TemporaryDirectory dir;
  arguments.insert(arguments.begin(), built_command());
  Process process(arguments, dir / "output");
  const int code = process.wait();
  return {code, process.output()};
}

}  // namespace forebay::testing

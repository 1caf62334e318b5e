// The file of a state: however a save ends, the file holds a complete state.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "order/job_state.hpp"
#include "order/state_file.hpp"
#include "process.hpp"
#include "states.hpp"
#include "test.hpp"

namespace forebay::test_state_file {

using namespace forebay::order;

namespace {

namespace fs = std::filesystem;
using namespace testing;

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }

  int ends[2] = {-1, -1};
};

// A forked process that runs `body` and nothing else; the destructor kills it at the latest.
class Child {
 public:
  template <typename Body>
  explicit Child(Body&& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ~Child() { end(SIGKILL); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends a signal and returns the status from waitpid().
  int end(int signal) {
    int status = 0;
    if (pid_ <= 0) return status;
    if (signal != 0) ::kill(pid_, signal);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// The message of an Error thrown by `body` in a child process after `prepare`; "" if none is
// thrown.
template <typename Prepare, typename Body>
std::string error_in_child(Prepare&& prepare, Body&& body) {
  Pipe pipe;
  Child child([&] {
    std::string what = "could not be prepared";
    if (prepare()) {
      what.clear();
      try {
        body();
      } catch (const Error& error) {
        what = error.what();
      }
    }
    if (::write(pipe.ends[1], what.data(), what.size()) < 0) ::_exit(1);
  });
  pipe.close_end(1);
  std::string what;
  char part[4096];
  for (ssize_t got = 1; got > 0;) {
    got = ::read(pipe.ends[0], part, sizeof part);
    if (got > 0) what.append(part, static_cast<std::size_t>(got));
  }
  CHECK(child.end(0) == 0);
  return what;
}

std::string save_error(const fs::path& file, const std::string& text = "new\n") {
  return testing::error_of([&] { write_state(file, text); });
}

std::string read_error(const fs::path& file) {
  return testing::error_of<ConfigError>([&] { (void)read_state(file); });
}

std::size_t count_files(const fs::path& dir) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir), {}));
}

// Gives up the rights of root, and of the owner of a temporary directory.
bool become_nobody() { return ::geteuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0); }

TEST_CASE("a state is written, replaced and read, in folders that need not exist") {
  const TemporaryDirectory dir;
  const fs::path file = dir / "run" / "a b" / "feed.state";
  CHECK(read_state(file) == std::nullopt);
  for (const std::string& text :
       {std::string("first\n"), std::string(100'000, 'x'), std::string(), std::string("\0", 1)}) {
    write_state(file, text);
    CHECK(read_state(file) == text);
    CHECK(count_files(file.parent_path()) == 1);
  }
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0644);
}

TEST_CASE("a state may be named by a file name alone") {
  const TemporaryDirectory dir;
  CHECK(error_in_child([&] { return ::chdir(dir.path().c_str()) == 0; }, [] { write_state("feed.state", "text\n"); }) ==
        "");
  CHECK(read_state(dir / "feed.state") == "text\n");
}

TEST_CASE("what killed jobs left is removed by the next save, and nothing else is") {
  const TemporaryDirectory dir;
  for (const char* left : {"feed.state.saving-aZ09bc", "feed.state.saving-000000"}) std::ofstream(dir / left) << "part";
  const std::string others[] = {"feed.state.saving-",       "feed.state.saving-12345", "feed.state.saving-1234567",
                                "feed.state.saving-12.456", "feed.state.old",          "feed.state.tmp",
                                "eval.state.saving-123456"};
  for (const std::string& other : others) std::ofstream(dir / other) << "kept";
  write_state(dir / "feed.state", "text\n");
  for (const std::string& other : others) CHECK(read_text(dir / other) == "kept");
  CHECK(count_files(dir.path()) == 1 + std::size(others));
}

TEST_CASE("a save that fails says why and leaves everything as it was") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "no folder";
  const fs::path below = dir / "file" / "feed.state";
  CHECK(save_error(below) ==
        "cannot save the state to " + below.string() + ": cannot create its folder: Not a directory");
  CHECK(read_text(dir / "file") == "no folder");

  fs::create_directories(dir / "folder");
  CHECK(save_error(dir / "folder") ==
        "cannot save the state to " + (dir / "folder").string() + ": it is a directory: choose another name");
  CHECK(
      save_error("/proc/forebay/feed.state").starts_with("cannot save the state to /proc/forebay/feed.state: cannot "));
  CHECK(save_error(dir / std::string(250, 'x')).find("cannot create a file beside it: File name too long") !=
        std::string::npos);
  CHECK(count_files(dir.path()) == 2);
}

TEST_CASE("only a regular file is replaced, whichever name leads to it") {
  const TemporaryDirectory dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("fifo", dir / "link");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string socket = dir / "socket";
  REQUIRE(socket.size() < sizeof(address.sun_path));
  std::ranges::copy(socket, address.sun_path);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const std::vector<std::pair<const char*, std::string>> specials{
      {"fifo", "a FIFO"}, {"link", "a FIFO"}, {"socket", "a socket"}};
  for (const auto& [name, what] : specials) {
    const fs::path file = dir / name;
    const auto kind = fs::symlink_status(file).type();
    CHECK(save_error(file) ==
          "cannot save the state to " + file.string() + ": it is " + what + ": choose another name");
    CHECK(fs::symlink_status(file).type() == kind);
  }
  ::close(listener);
  CHECK(save_error("/dev/null") == "cannot save the state to /dev/null: it is a device: choose another name");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(count_files(dir.path()) == 3);
}

TEST_CASE("a symbolic link stays, and the file that it leads to is replaced or made") {
  const TemporaryDirectory dir;
  fs::create_directories(dir / "there");
  fs::create_symlink("there/second", dir / "first");
  fs::create_symlink(dir / "there" / "feed.state", dir / "there" / "second");
  for (const char* text : {"old\n", "new\n"}) {
    write_state(dir / "first", text);
    CHECK(fs::is_symlink(dir / "first"));
    CHECK(fs::is_symlink(dir / "there" / "second"));
    CHECK(fs::is_regular_file(fs::symlink_status(dir / "there" / "feed.state")));
    CHECK(read_text(dir / "first") == text);
    CHECK(count_files(dir / "there") == 2);
  }
  fs::create_symlink("loop", dir / "loop");
  CHECK(save_error(dir / "loop")
            .starts_with("cannot save the state to " + (dir / "loop").string() + ": cannot follow the link: "));
}

TEST_CASE("a folder that may not be written to is an error") {
  const TemporaryDirectory dir;
  const fs::path file = dir / "feed.state";
  write_state(file, "old\n");
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  const std::string error = error_in_child(become_nobody, [&] { write_state(file, "new\n"); });
  CHECK(error.starts_with("cannot save the state to " + file.string() + ": cannot create "));
  CHECK(error.ends_with(": Permission denied"));
  fs::permissions(dir.path(), fs::perms::owner_all);
  CHECK(read_text(file) == "old\n");
  CHECK(count_files(dir.path()) == 1);
}

TEST_CASE("a file that cannot be written to its end does not replace the state") {
  const TemporaryDirectory dir;
  const fs::path file = dir / "feed.state";
  write_state(file, "old\n");
  const auto limit = [] {
    const rlimit most{.rlim_cur = 4096, .rlim_max = 4096};
    return ::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && ::setrlimit(RLIMIT_FSIZE, &most) == 0;
  };
  CHECK(error_in_child(limit, [&] { write_state(file, std::string(4096, 'x')); }) == "");
  CHECK(read_text(file).size() == 4096);
  CHECK(error_in_child(limit, [&] { write_state(file, std::string(10'000, 'y')); }) ==
        "cannot save the state to " + file.string() + ": cannot write: File too large");
  CHECK(read_text(file) == std::string(4096, 'x'));
  CHECK(count_files(dir.path()) == 1);
}

TEST_CASE("a path that exists but cannot be a state is an error, never an absent state") {
  const TemporaryDirectory dir;
  const auto error = [](const fs::path& file, const std::string& why) {
    return "cannot read the state " + file.string() + ": " + why;
  };
  CHECK(read_error(dir.path()) == error(dir.path(), "it is a directory"));
  std::ofstream(dir / "file") << "text";
  CHECK(read_error(dir / "file" / "feed.state") == error(dir / "file" / "feed.state", "Not a directory"));
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK(read_error(dir / "fifo") == error(dir / "fifo", "it is a FIFO"));
  CHECK(read_error("/dev/zero") == error("/dev/zero", "it is a device"));
  fs::create_symlink("itself", dir / "itself");
  CHECK(read_error(dir / "itself") == error(dir / "itself", "Too many levels of symbolic links"));

  fs::resize_file(dir / "file", std::size_t{16} << 20U);
  CHECK(read_error(dir / "file") == "");
  fs::resize_file(dir / "file", (std::size_t{16} << 20U) + 1);
  CHECK(read_error(dir / "file") == error(dir / "file", "it has more than 16 MiB, and no state is that large"));

  fs::permissions(dir / "file", fs::perms::none);
  CHECK(error_in_child(become_nobody, [&] { (void)read_state(dir / "file"); }) ==
        error(dir / "file", "Permission denied"));
}

// A different state for each number of steps, with a different length.
JobState state_at(std::uint64_t steps) {
  Random random(steps);
  JobState state = testing::job(1024, 256, 1'000'003, 12, 2);
  state.steps = steps;
  testing::leave(state, [&](std::uint32_t) { return random.below(8000); });
  return state;
}

void save_for_ever(const fs::path& file, std::uint64_t steps, int reports) {
  while (true) {
    write_state(file, to_text(state_at(++steps)));
    if (::write(reports, &steps, sizeof steps) != sizeof steps) ::_exit(1);
  }
}

// Waits up to a minute for input.
bool is_readable(int descriptor) {
  pollfd wanted{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 60'000) == 1 && (wanted.revents & POLLIN) != 0;
}

TEST_CASE("kills during saves leave a readable state every time") {
  constexpr int kKills = forebay::testing::kSanitized ? 25 : 100;
  Random random = testing::random_from(97);
  const TemporaryDirectory dir;
  const fs::path file = dir / "feed.state";
  std::uint64_t steps = 0;
  int unfinished = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    CAPTURE(kill);
    Pipe reports;
    Child child([&] { save_for_ever(file, steps, reports.ends[1]); });
    reports.close_end(1);
    REQUIRE(is_readable(reports.ends[0]));
    // A random delay, so that the kill may hit any part of some later save.
    ::usleep(static_cast<useconds_t>(random.below(10'000)));
    const int status = child.end(SIGKILL);
    REQUIRE(WIFSIGNALED(status));
    std::uint64_t reported = 0;
    while (::read(reports.ends[0], &reported, sizeof reported) == sizeof reported) {
    }

    const std::optional<std::string> text = read_state(file);
    REQUIRE(text);
    const JobState state = parse_state(*text, file.string());
    CHECK(state.steps >= reported);
    CHECK(state.steps <= reported + 1);  // it may be complete although the child could not report it
    CHECK(state == state_at(state.steps));
    CHECK(state.steps > steps);
    steps = state.steps;
    const std::size_t files = count_files(dir.path());
    CHECK(files <= 2);
    if (files == 2) ++unfinished;
  }
  MESSAGE(kKills << " kills in " << steps << " saves, " << unfinished << " of them before the new state was in place");
  write_state(file, "the last\n");
  CHECK(count_files(dir.path()) == 1);
}

}  // namespace
}  // namespace forebay::test_state_file

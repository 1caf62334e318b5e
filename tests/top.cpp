// `forebay top` on a pseudo-terminal, and without a terminal.
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <utmp.h>

#include "base/file_io.hpp"
#include "measure/counters.hpp"
#include "measure/run_log.hpp"
#include "report/live_run.hpp"
#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_top {

using namespace forebay::measure;
using namespace forebay::report;

namespace {

namespace fs = std::filesystem;
using namespace testing;

void append(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }

// The lines of so many steps of `every_s`, in each of which the rank waits `wait_s`.
std::string steps(std::uint64_t first, std::uint64_t count, double wait_s, double every_s = 0.1) {
  std::string lines;
  for (std::uint64_t i = first; i < first + count; ++i) {
    StepRecord record;
    record.step = i;
    record.use_index = i % 4;
    record.t_s = every_s * static_cast<double>(i);
    record.wait_s = wait_s;
    record.step_s = every_s - wait_s;
    record.depth = 5;
    record.served = i % 4 == 0 ? Decision::fresh : Decision::reuse;
    append_json(lines, record);
  }
  return lines;
}

void begin_rank(const fs::path& dir, std::uint32_t rank, std::uint32_t ranks, double wait_s) {
  const std::string number = std::to_string(rank);
  append(
      dir / ("run." + number + ".jsonl"),
      head_line({.rank = rank, .ranks = ranks, .settings = {{"policy.name", "\"greedy\""}, {"queue.capacity", "16"}}}));
  append(dir / ("steps." + number + ".jsonl"), steps(0, 100, wait_s));
}

TEST_CASE("the end of each rank's files says how it goes") {
  const TemporaryDirectory dir;
  CHECK(contains(error_of([&] { LiveRun(dir / "none"); }), "none: there is no such folder"));
  fs::create_symlink("loop", dir / "loop");  // as a folder that may not be looked into, which root always may
  CHECK(contains(error_of([&] { LiveRun(dir / "loop/run"); }), "run cannot be looked into: Too many levels"));
  LiveRun run(dir.path());
  run.look(0);
  CHECK(live_line(run) == "no telemetry yet: waiting for a run to write run.RANK.jsonl here");
  for (std::uint32_t rank = 0; rank < 20; ++rank) begin_rank(dir.path(), rank, 32, rank == 7 ? 0.05 : 0.01);
  append(dir / "steps.3.jsonl", "{\"step\":100,\"t_s\":1");  // still being written
  run.look(1);
  REQUIRE(run.ranks().size() == 20);
  CHECK(run.expected() == 32);
  const RankNow& third = run.ranks()[3];
  CHECK(third.step == 99);
  CHECK(third.depth == 5);
  CHECK(third.capacity == 16);
  CHECK(third.steps_per_s() == doctest::Approx(10).epsilon(0.05));
  CHECK(third.lately.fresh_share() == doctest::Approx(0.25).epsilon(0.1));
  CHECK(third.lately.stall() == doctest::Approx(0.1));
  CHECK(third.lately.uses_most == 4);

  const std::string all = live_table(run, "a\x1b[2Jrun", 40);
  CHECK(contains(all, "20 of 32 ranks   policy greedy"));
  CHECK(contains(all, "\\x1b"));
  CHECK(contains(all, "     3        99 [#####           ]   5/16"));
  CHECK_FALSE(contains(all, "more;"));
  const std::string few = live_table(run, "run", 10);
  CHECK(few.find("     7 ") < few.find("     0 "));  // rank 7 waits the most
  CHECK(contains(few, "and 15 more;"));
  CHECK(std::ranges::count(few, '\n') == 9);

  // The file is renamed to the earlier one, and the new file has few lines.
  fs::rename(dir / "steps.0.jsonl", dir / "steps.0.earlier.jsonl");
  append(dir / "steps.0.jsonl", steps(100, 10, 0));
  run.look(30);
  CHECK(run.ranks()[0].step == 109);
  CHECK(run.ranks()[0].silent_s == 0);
  CHECK(contains(live_table(run, "run", 40), "silent for 29 s"));
  CHECK_FALSE(run.has_ended());
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    append(dir / ("run." + std::to_string(rank) + ".jsonl"), end_line({.failure = rank == 1 ? "bad" : ""}));
  }
  run.look(31);
  CHECK(run.has_ended());
  CHECK(contains(live_table(run, "run", 40), "  failed"));
}

TEST_CASE("steps that are many are counted over the time that they took, before and after a file made way") {
  const TemporaryDirectory dir;
  begin_rank(dir.path(), 0, 1, 0);
  LiveRun run(dir.path());
  for (const std::uint64_t after : {10U, 100U, 2000U}) {  // the last count is more than is read
    CAPTURE(after);
    std::ofstream(dir / "steps.0.earlier.jsonl") << steps(0, 2000, 0, 0.001);
    std::ofstream(dir / "steps.0.jsonl") << steps(2000, after, 0, 0.001);
    run.look(1);
    CHECK(run.ranks()[0].step == 1999 + after);
    CHECK(run.ranks()[0].steps_per_s() == doctest::Approx(1000).epsilon(0.05));
  }
}

TEST_CASE("without a terminal there is a line per interval, until the run has ended") {
  const TemporaryDirectory dir;
  fs::create_directory(dir / "run");
  testing::Process early(testing::forebay_command(1, {"top", (dir / "run").string()}), dir / "output");
  CHECK(early.wait() == 1);
  CHECK(contains(early.output(), "has no run.RANK.jsonl"));
  begin_rank(dir / "run", 0, 1, 0.01);
  testing::Process top(testing::forebay_command(1, {"top", (dir / "run").string(), "--interval", "0.05"}),
                       dir / "output");
  REQUIRE(eventually([&] { return std::ranges::count(top.output(), '\n') >= 2; }));
  append(dir / "run" / "run.0.jsonl", end_line({}));
  CHECK(top.wait() == 0);
  CHECK(top.output().starts_with("step 99  depth 5.0/16  fresh "));
  CHECK(top.output().ends_with("  ended\n"));
  CHECK_FALSE(contains(top.output(), "\033"));
}

// Runs the command on a pseudo-terminal.
class OnTerminal {
 public:
  OnTerminal(const std::vector<std::string>& command, winsize size) {
    int master = -1;
    int slave = -1;
    REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    master_ = FileDescriptor(master);
    slave_ = FileDescriptor(slave);
    ::tcgetattr(slave, &before_);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::login_tty(slave);
      ::setenv("TERM", "xterm", 1);
      std::vector<char*> argv;
      for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~OnTerminal() {
    if (!ended_) ::kill(pid_, SIGKILL);
    if (!ended_) ::waitpid(pid_, nullptr, 0);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  // Whether this is drawn within a minute.
  bool shows(const std::string& text) {
    return eventually([&] {
      take();
      return contains(drawn_, text);
    });
  }
  void type(char key) const { REQUIRE(::write(master_.get(), &key, 1) == 1); }
  void resize(winsize size) const { ::ioctl(master_.get(), TIOCSWINSZ, &size); }
  // What was drawn since the last call.
  std::string forget() { return std::exchange(drawn_, {}); }
  int wait() {
    int status = -1;
    ended_ = eventually([&] {
      take();
      return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    take();
    return ended_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool is_as_before() const {
    termios now{};
    ::tcgetattr(slave_.get(), &now);
    return now.c_lflag == before_.c_lflag && std::memcmp(now.c_cc, before_.c_cc, sizeof now.c_cc) == 0;
  }
  const std::string& drawn() const noexcept { return drawn_; }

 private:
  void take() {
    std::array<char, 4096> part{};
    pollfd ready{.fd = master_.get(), .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
      const ssize_t got = ::read(master_.get(), part.data(), part.size());
      if (got <= 0) return;
      drawn_.append(part.data(), static_cast<std::size_t>(got));
    }
  }

  FileDescriptor master_;
  FileDescriptor slave_;  // keeps the output readable after the command has ended
  termios before_{};
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string drawn_;
};

TEST_CASE("a terminal is drawn on, follows its size, and is left as it was") {
  const TemporaryDirectory dir;
  begin_rank(dir.path(), 0, 1, 0.01);
  const auto command = testing::forebay_command(1, {"top", dir.path().string(), "--interval", "0.05"});
  for (const char key : {'q', '\x03'}) {
    CAPTURE(static_cast<int>(key));
    OnTerminal top(command, {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0});
    REQUIRE(top.shows("\033[?1049h"));
    REQUIRE(top.shows("steps/s  uses"));
    CHECK_FALSE(top.is_as_before());
    top.resize({.ws_row = 3, .ws_col = 12, .ws_xpixel = 0, .ws_ypixel = 0});
    REQUIRE(top.shows("\033[Hforebay top \033[K"));  // twelve columns of it
    top.forget();
    REQUIRE(top.shows("\033[J"));
    REQUIRE(top.shows("\033[H"));
    CHECK_FALSE(contains(top.forget(), "steps/s  uses"));
    top.resize({.ws_row = 24, .ws_col = 15, .ws_xpixel = 0, .ws_ypixel = 0});  // a column less than the step 99 takes
    REQUIRE(top.shows("\n     0        \033[K"));
    CHECK_FALSE(contains(top.forget(), " 9\033[K"));
    top.type(key);
    CHECK(top.wait() == 0);
    CHECK(top.drawn().ends_with("\033[?25h\033[?1049l"));
    CHECK(top.is_as_before());
  }
}

}  // namespace
}  // namespace forebay::test_top

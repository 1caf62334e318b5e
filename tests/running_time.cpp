// Time during which the process did not run does not count towards limits: with a fake clock, and
// with suspended processes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <forebay/feeder.hpp>
#include <new>

#include "base/clock.hpp"
#include "memory_dataset.hpp"
#include "process.hpp"
#include "serve/watchdog.hpp"
#include "store/http.hpp"
#include "test.hpp"

namespace forebay::test_running_time {

using namespace forebay::serve;

namespace {

using namespace std::chrono_literals;
using namespace testing;

// A running time with a clock that the test moves.
struct FakeClock {
  RunningTime::Clock::time_point now{1000s};
  RunningTime time{100ms, now};

  void runs(std::chrono::milliseconds duration) {
    for (std::chrono::milliseconds done{0}; done < duration; done += 100ms) time.tick(now += 100ms);
  }
  void stands_still(std::chrono::milliseconds duration) { now += duration; }
};

TEST_CASE("time that a process ran is counted, less a few ticks; time that it stood still is not") {
  FakeClock clock;
  const auto mark = clock.time.now();
  CHECK(clock.time.since(mark) == 0ms);
  clock.runs(10s);
  CHECK(clock.time.since(mark) == 9800ms);
  clock.stands_still(24h);
  CHECK(clock.time.since(mark) == 9800ms);  // even before the next tick
  clock.runs(100ms);
  CHECK(clock.time.since(mark) == 10s);
  for (int i = 0; i < 100; ++i) {
    clock.stands_still(10min);
    clock.runs(1s);
  }
  // Each pause may count as one more tick.
  CHECK(clock.time.since(mark) >= 10s + 100s);
  CHECK(clock.time.since(mark) <= 10s + 100s + 10s);
}

TEST_CASE("a clock that goes back, or a late tick, never counts too much") {
  FakeClock clock;
  const auto mark = clock.time.now();
  clock.time.tick(clock.now - 1h);
  CHECK(clock.time.now() == mark);
  clock.time.tick(clock.now);
  CHECK(clock.time.now() - mark <= 200ms);
}

TEST_CASE("the watchdog barks after its limit of running, whatever pauses there were, and never when fed") {
  FakeClock clock;
  Watchdog watchdog(clock.time, 5);
  clock.runs(1min);
  CHECK_FALSE(watchdog.barks());
  watchdog.starve();
  clock.runs(2s);
  clock.stands_still(1h);
  clock.runs(2s);
  watchdog.starve();  // still
  CHECK_FALSE(watchdog.barks());
  CHECK(watchdog.starved_s() == doctest::Approx(4).epsilon(0.1));
  clock.runs(2s);
  CHECK(watchdog.barks());
  watchdog.feed();
  CHECK_FALSE(watchdog.barks());
  CHECK(watchdog.starved_s() == 0);
  Watchdog never(clock.time, 0);
  never.starve();
  clock.runs(1min);
  CHECK_FALSE(never.barks());
}

// Takes connections and says nothing.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    ::inet_pton(AF_INET, "127.0.0.1", &place.sin_addr);
    socklen_t size = sizeof place;
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&place), size) == 0);
    REQUIRE(::listen(socket_.get(), 64) == 0);
    REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&place), &size) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(place.sin_port)) + "/";
  }
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  FileDescriptor socket_;
  std::string url_;
};

TEST_CASE("a start that waits for a silent store ends soon after the program or a stop wants it to") {
  struct Interrupted {};
  try {
    store::require_http();
  } catch (const ConfigError& error) {
    MESSAGE("skipped: " << error.what());
    return;
  }
  const SilentServer server;
  const TemporaryDirectory dir;
  std::ofstream(dir.path() / "list.csv") << server.url() << "a.png,0\n" << server.url() << "b.png,1\n";
  const std::string list = (dir.path() / "list.csv").string();
  for (const std::string& path : {server.url() + "a.tar", server.url() + "{0..7}.tar", list}) {
    for (const bool is_stop : {false, true}) {
      CAPTURES(path, is_stop);
      Options options;
      options.dataset.path = path;
      options.dataset.batch_size = 1;
      options.device = "host";
      const std::atomic<bool> stop{is_stop};
      Parts parts;
      parts.stop = &stop;
      parts.while_waiting = [&, begin = std::chrono::steady_clock::now()] {
        if (!is_stop && std::chrono::steady_clock::now() - begin > 300ms) throw Interrupted();
      };
      const auto begin = std::chrono::steady_clock::now();
      if (!is_stop) {
        CHECK_THROWS_AS(Feeder(options, std::move(parts)), Interrupted);
      } else if (path == list) {
        CHECK(Feeder(options, std::move(parts)).was_stopped());
      } else {
        CHECK_THROWS_WITH_AS(Feeder(options, std::move(parts)),
                             ("stopped, as requested, while " + path + " was being opened").c_str(), Error);
      }
      CHECK(std::chrono::steady_clock::now() - begin < 8s);
    }
  }
}

// Suspended processes. Shared is how a trainer in a child process and the test communicate.

// What a trainer in a child process and the test tell each other.
struct Shared {
  std::atomic<std::uint64_t> reads{0};   // reads begun
  std::atomic<std::uint64_t> steps{0};   // steps made
  std::atomic<bool> in_step{false};      // the trainer is in its own step
  std::atomic<bool> store_opens{false};  // reads may end
  std::atomic<bool> step_ends{false};    // the trainer's step may end
};

struct Scene {
  std::string name;
  std::string policy;
  bool stops_in_step = false;  // the pause comes while the trainer computes
  bool store_opens = true;     // the store works again some time after the pause
};

constexpr std::uint64_t kFirst = 4;  // samples that arrive before the store stalls

bool await(const std::atomic<bool>& flag) {
  return eventually([&] { return flag.load(); });
}

// Exit codes: 0 = ran to its end, 3 = ended by the watchdog, 4 = the test got stuck.
int train(const Scene& scene, Shared& shared) {
  auto options = testing::memory_options(2);
  options.policy.name = scene.policy;
  options.policy.watchdog_s = 2;
  options.workers.io = 1;
  options.run.steps = scene.policy == "block" ? 6 : 1'000'000'000;
  options.run.epochs = 1;
  Parts parts;
  parts.dataset = std::make_shared<MemoryDataset>(64, [&](std::uint64_t) {
    if (shared.reads.fetch_add(1) >= kFirst) (void)await(shared.store_opens);
  });
  std::atomic<bool> stop{false};
  parts.stop = &stop;
  Feeder feeder(std::move(options), std::move(parts));
  std::uint64_t fresh = 0;
  try {
    while (auto batch = feeder.next()) {
      if (batch->use_index() == 0) ++fresh;
      ++shared.steps;
      if (fresh > kFirst / 2) stop = true;
      if (scene.policy == "block") continue;
      if (scene.stops_in_step && shared.steps > 10) {
        shared.in_step = true;
        if (!await(shared.step_ends)) return 4;
      }
      ::poll(nullptr, 0, 2);
    }
  } catch (const WatchdogError&) {
    shared.store_opens = true;  // otherwise close() would wait for the reader
    return 3;
  }
  return 0;
}

class Child {
 public:
  explicit Child(Scene scene)
      : scene_(std::move(scene)),
        memory_(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
    shared_ = new (memory_) Shared;
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    int code = 5;
    try {
      code = train(scene_, *shared_);
    } catch (...) {
    }
    ::_exit(code);
  }
  ~Child() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::munmap(memory_, sizeof(Shared));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] const Scene& scene() const { return scene_; }
  [[nodiscard]] Shared& shared() const { return *shared_; }

  // Whether it has run out of batches and is where the pause should hit it.
  [[nodiscard]] bool is_starved() const {
    if (shared_->reads <= kFirst) return false;
    return scene_.stops_in_step ? shared_->in_step.load() : shared_->steps >= (scene_.policy == "block" ? 2U : 10U);
  }
  [[nodiscard]] bool stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  // The exit code; -1 if it has not ended within a minute.
  int wait() {
    int status = 0;
    ended_ = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    return ended_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  Scene scene_;
  void* memory_;
  Shared* shared_ = nullptr;
  pid_t pid_ = -1;
  bool ended_ = false;
};

TEST_CASE("a suspended process continues where it was; a dead store is still noticed") {
  std::vector<std::unique_ptr<Child>> children;
  for (const Scene& scene :
       {Scene{"block waits", "block"}, Scene{"adaptive reuses", "adaptive"},
        Scene{"the trainer computes", "greedy", true}, Scene{"greedy reuses", "greedy"},
        Scene{"a dead store, block", "block", false, false}, Scene{"a dead store, greedy", "greedy", true, false}}) {
    children.push_back(std::make_unique<Child>(scene));
  }
  for (const auto& child : children) {
    CAPTURE(child->scene().name);
    CHECK(eventually([&] { return child->is_starved(); }));
    CHECK(child->stop());
  }
  // Longer than watchdog_s: this is the pause itself.
  const auto end = std::chrono::steady_clock::now() + 3s;
  while (std::chrono::steady_clock::now() < end) ::poll(nullptr, 0, 50);
  for (const auto& child : children) {
    const std::uint64_t before = child->shared().steps;
    child->go_on();
    child->shared().step_ends = true;
    // It must be served old batches, or wait, before the store delivers anything new.
    const bool reuses = child->scene().policy != "block";
    if (reuses && child->scene().store_opens) {
      CAPTURE(child->scene().name);
      CHECK(eventually([&] { return child->shared().steps > before + 3; }, std::chrono::seconds(30)));
    }
    if (!reuses) ::poll(nullptr, 0, 100);  // time to be ended by a wrong look at the clock
    if (child->scene().store_opens) child->shared().store_opens = true;
  }
  for (const auto& child : children) {
    CAPTURE(child->scene().name);
    CHECK(child->wait() == (child->scene().store_opens ? 0 : 3));
  }
}

}  // namespace
}  // namespace forebay::test_running_time

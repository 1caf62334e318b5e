// Saves with a disk that stalls: the ranks continue, the end is durable, and an error reaches all
// of them.
#include <sys/syscall.h>
#include <unistd.h>
#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "order/job_state.hpp"
#include "process.hpp"
#include "ranks/liveness.hpp"
#include "ranks/saves.hpp"
#include "test.hpp"

using namespace forebay::order;
using namespace forebay::ranks;

namespace {

std::atomic<bool> disk_stalls{false};
std::atomic<int> stalled{0};

}  // namespace

// Replaces the C library's function.
extern "C" int fsync(int descriptor) {
  if (disk_stalls) {
    ++stalled;
    (void)forebay::testing::eventually([] { return !disk_stalls.load(); });
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace forebay {
namespace {

namespace fs = std::filesystem;
using namespace testing;

struct Place {
  Place() : between(testing::world().duplicate()), folder(between->all_gather(own.path().string())[0]) {}
  // The folder is not removed while another rank reads it.
  ~Place() { (void)between->all_gather(""); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  [[nodiscard]] bool is_writer() const { return between->rank() == 0; }
  [[nodiscard]] std::uint64_t saved_steps(const fs::path& file) const {
    return parse_state(testing::read_text(file), file.string()).steps;
  }

  testing::TemporaryDirectory own;
  std::unique_ptr<Communicator> between;
  fs::path folder;
};

Feeder make_feeder(double watchdog_s = 30, Logger log = {}) {
  Options options = testing::memory_options(2);
  options.policy.watchdog_s = watchdog_s;
  options.run.epochs = 3;
  return Feeder(options, testing::world(),
                Parts{.dataset = std::make_shared<MemoryDataset>(64), .log = std::move(log)});
}

TEST_CASE("no rank waits for a disk that stalls; finish_saves() and close() do") {
  Place place;
  const fs::path file = place.folder / "feed.state";
  Feeder feeder = make_feeder();
  if (place.is_writer()) disk_stalls = true;
  for (int step = 1; step <= 6; ++step) {
    REQUIRE(feeder.next());
    feeder.save(file);
  }
  if (place.is_writer()) {
    CHECK(eventually([] { return stalled.load() > 0; }));
    CHECK_FALSE(fs::exists(file));
    disk_stalls = false;
  }
  feeder.finish_saves();
  CHECK(place.saved_steps(file) == 6);
  (void)place.between->all_gather("");

  REQUIRE(feeder.next());
  feeder.save(file);
  feeder.close();
  if (place.is_writer()) CHECK(place.saved_steps(file) == 7);
  feeder.finish_saves();  // nothing to wait for
}

// Stalls rank 0's disk for longer than a rank waits for another.
class LongStall {
 public:
  explicit LongStall(const Place& place, double watchdog_s) {
    if (!place.is_writer()) return;
    disk_stalls = true;
    thread_ = std::thread([watchdog_s] {
      std::this_thread::sleep_for(std::chrono::duration<double>(1.25 * watchdog_s + 0.6));
      disk_stalls = false;
    });
  }
  ~LongStall() {
    if (thread_.joinable()) thread_.join();
  }
  LongStall(const LongStall&) = delete;
  LongStall& operator=(const LongStall&) = delete;

 private:
  std::thread thread_;
};

TEST_CASE("a disk that stalls for longer than policy.watchdog_s is waited for at the end") {
  constexpr double kWatchdog = testing::kSanitized ? 4 : 1.5;
  Place place;
  const fs::path file = place.folder / "feed.state";
  Feeder feeder = make_feeder(kWatchdog);
  REQUIRE(feeder.next());
  {
    const LongStall stall(place, kWatchdog);
    feeder.save(file);
    CHECK(error_of([&] { feeder.finish_saves(); }).empty());
    CHECK(place.saved_steps(file) == 1);
  }
  while (feeder.next()) {
  }
  {
    const LongStall stall(place, kWatchdog);
    CHECK(error_of([&] { feeder.save(file); }).empty());
    CHECK(place.saved_steps(file) == feeder.steps());
  }
  feeder.close();
}

TEST_CASE("a disk that never answers again is given up: the save fails, and the end does not wait for it again") {
  if (testing::world().rank() != 0) return;
  const testing::TemporaryDirectory folder;
  const auto alone = solo_communicator();
  Liveness liveness(*alone, {});
  // Deliberately leaked, because the writing thread may wake up some day.
  constexpr std::chrono::seconds kPatience(1);
  Saves& saves = *new Saves(*alone, liveness, kPatience, [](const char*) {});
  disk_stalls = true;
  const std::string cause = error_of([&] { saves.save(folder / "feed.state", "text", true); });
  CHECK(contains(cause, "feed.state: its disk has not answered for "));
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(saves.end());
  CHECK(std::chrono::steady_clock::now() - begin < kPatience);
  CHECK(contains(saves.take_failure(), "its disk has not answered"));
  disk_stalls = false;
}

TEST_CASE("a rank that falls silent in the middle of a save is given up by the others") {
  if (testing::world().size() == 1) return;
  Place place;
  const std::uint32_t last = place.between->size() - 1;
  Feeder feeder = make_feeder(testing::kSanitized ? 3 : 1.5);
  REQUIRE(feeder.next());
  std::string cause;
  if (place.between->rank() == last) {
    (void)feeder.state();                 // takes part in the save, but not in its end
    (void)place.between->all_gather("");  // until all others have given it up
    cause = error_of([&] { (void)feeder.next(); });
  } else {
    cause = error_of([&] { feeder.save(place.folder / "feed.state"); });
    (void)place.between->all_gather("");
  }
  CHECK(cause.find(" for rank " + std::to_string(last) + ", not heard of since") != std::string::npos);
  for (const std::string& theirs : place.between->all_gather(cause)) CHECK(theirs == cause);
  feeder.close();
}

TEST_CASE("after the last step save() returns when the state is durable, and throws what it met") {
  Place place;
  const fs::path file = place.folder / "feed.state";
  Feeder feeder = make_feeder();
  while (feeder.next()) {
  }
  const std::uint64_t steps = feeder.steps();
  feeder.save(file);
  CHECK(place.saved_steps(file) == steps);
  const fs::path folder = place.folder;
  CHECK(error_of([&] { feeder.save(folder); }).find("it is a directory") != std::string::npos);
  feeder.close();
}

TEST_CASE("a save that failed is an error of the next one, on all ranks alike, or of close() on rank 0") {
  Place place;
  const fs::path good = place.folder / "feed.state";
  const fs::path bad = place.folder;
  Feeder feeder = make_feeder();
  REQUIRE(feeder.next());
  std::string said = error_of([&] { feeder.save(bad); });
  REQUIRE(feeder.next());
  said += error_of([&] { feeder.finish_saves(); });
  CHECK(contains(said, "cannot save the state to " + bad.string() + ": it is a directory"));
  // One of these three calls reports it, and the good state is written.
  std::string later = error_of([&] { feeder.save(bad); });
  REQUIRE(feeder.next());  // the run continues
  later += error_of([&] { feeder.save(good); });
  later += error_of([&] { feeder.finish_saves(); });
  CHECK(contains(later, "it is a directory"));
  CHECK(place.saved_steps(good) == 3);
  // Reported on all ranks if it has failed when save() returns, otherwise by the rank that closes
  // the file.
  const bool was_said = !error_of([&] { feeder.save(bad); }).empty();
  const std::string last = error_of([&] { feeder.close(); });
  CHECK((contains(last, "it is a directory")) == (place.is_writer() && !was_said));
  feeder.close();
}

TEST_CASE("a save that failed is one line for people although the program never asks") {
  Place place;
  int lines = 0;
  const std::string failure = "cannot save the state to " + place.folder.string();
  {
    Feeder feeder =
        make_feeder(30, [&](LogLevel, std::string_view text) { lines += text.find(failure) != text.npos ? 1 : 0; });
    REQUIRE(feeder.next());
    (void)error_of([&] { feeder.save(place.folder); });  // may report it already
    while (feeder.next()) {
    }
  }
  CHECK(lines == (place.is_writer() ? 1 : 0));
}

TEST_CASE("a save that failed is said although another state is restored meanwhile") {
  Place place;
  Feeder feeder = make_feeder();
  std::string said = error_of([&] { feeder.save(place.folder); });
  feeder.restore_state(feeder.state());
  said += error_of([&] { feeder.finish_saves(); });
  CHECK(contains(said, "it is a directory"));
  CHECK(error_of([&] { feeder.close(); }).empty());
}

}  // namespace
}  // namespace forebay

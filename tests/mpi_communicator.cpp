#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <forebay/communicator.hpp>
#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <random>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "ranks/census.hpp"
#include "test.hpp"

using namespace forebay::ranks;

// The Communicator on real MPI, and the census on top of it. Runs under mpirun; every rank runs
// each test.
namespace forebay {
namespace {

using namespace testing;

constexpr double kPatience = 60;  // seconds; reached only by a broken build

TEST_CASE("rank and size are MPI's, on duplicates too") {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto copy = world().duplicate();
  CHECK(copy->rank() == static_cast<std::uint32_t>(rank));
  CHECK(copy->size() == static_cast<std::uint32_t>(size));
  CHECK(copy->close(kPatience));
}

TEST_CASE("sums in several channels are right, element by element") {
  const auto copy = world().duplicate();
  const auto ranks = static_cast<std::int64_t>(copy->size());
  const auto mine = static_cast<std::int64_t>(copy->rank());
  std::vector<std::array<std::int64_t, 3>> values(Communicator::kChannels);
  for (std::size_t round = 0; round < 50; ++round) {
    for (std::size_t channel = 0; channel < values.size(); ++channel) {
      values[channel] = {mine, static_cast<std::int64_t>(channel * round), -(std::int64_t{1} << 40)};
      copy->start_reduction(channel, values[channel]);
    }
    for (std::size_t channel = values.size(); channel-- > 0;) {
      REQUIRE(eventually([&] { return copy->test(channel); }));
      CHECK(values[channel][0] == ranks * (ranks - 1) / 2);
      CHECK(values[channel][1] == static_cast<std::int64_t>(channel * round) * ranks);
      CHECK(values[channel][2] == -ranks * (std::int64_t{1} << 40));
    }
  }
  CHECK(copy->close(kPatience));
}

TEST_CASE("the last values of a reduction are minima") {
  const auto copy = world().duplicate();
  const auto ranks = static_cast<std::int64_t>(copy->size());
  const auto mine = static_cast<std::int64_t>(copy->rank());
  for (std::int64_t round = 0; round < 50; ++round) {
    std::array<std::int64_t, 4> values{1, mine, mine + round, -mine};
    const std::size_t minima = static_cast<std::size_t>(round) % 4;
    copy->start_reduction(2, values, minima);
    REQUIRE(eventually([&] { return copy->test(2); }));
    const std::int64_t sum = ranks * (ranks - 1) / 2;
    CHECK(values[0] == ranks);
    CHECK(values[1] == (minima >= 3 ? 0 : sum));
    CHECK(values[2] == (minima >= 2 ? round : sum + ranks * round));
    CHECK(values[3] == (minima >= 1 ? -(ranks - 1) : -sum));
  }
  // A different number of values in the same channel.
  std::array<std::int64_t, 1> value{mine};
  copy->start_reduction(2, value, 1);
  REQUIRE(eventually([&] { return copy->test(2); }));
  CHECK(value[0] == 0);
  CHECK(copy->close(kPatience));
}

TEST_CASE("a channel takes one operation at a time and an unused one is complete") {
  const auto copy = world().duplicate();
  std::array<std::int64_t, 1> value{1};
  CHECK(copy->test(3));
  copy->start_reduction(3, value);
  CHECK_THROWS_AS(copy->start_reduction(3, value), forebay::Error);
  CHECK(eventually([&] { return copy->test(3); }));
  CHECK(copy->close(kPatience));
}

TEST_CASE("broadcast hands any number of bytes from any root") {
  const auto copy = world().duplicate();
  for (std::uint32_t root = 0; root < copy->size(); ++root) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'000}}) {
      std::vector<std::byte> sent(length, static_cast<std::byte>(root + 1));
      if (length > 1) sent.back() = std::byte{99};
      const auto given = copy->rank() == root ? sent : std::vector<std::byte>(7);
      CHECK(copy->broadcast(given, root) == sent);
    }
  }
  CHECK(copy->close(kPatience));
}

TEST_CASE("all_gather brings every rank's text, empty ones included") {
  const auto copy = world().duplicate();
  const auto text_of = [](std::uint32_t rank) { return rank == 1 ? "" : std::string(10'000 * rank + 3, 'a'); };
  const auto texts = copy->all_gather(text_of(copy->rank()));
  REQUIRE(texts.size() == copy->size());
  for (std::uint32_t r = 0; r < copy->size(); ++r) CHECK(texts[r] == text_of(r));
  CHECK(copy->close(kPatience));
}

TEST_CASE("the ranks of a node share memory that outlives the communicator and leaves no file") {
  auto copy = world().duplicate();
  const auto memory = copy->share_on_node(copy->size() * sizeof(std::uint64_t));
  REQUIRE(memory->bytes().size() == copy->size() * sizeof(std::uint64_t));
  CHECK(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  static_cast<void>(copy->all_gather(""));  // all ranks have looked

  memory->bytes()[copy->rank() * sizeof(std::uint64_t)] = std::byte{1};
  static_cast<void>(copy->all_gather(""));  // everybody has written
  CHECK(copy->close(kPatience));
  copy.reset();
  CHECK(std::ranges::count(memory->bytes(), std::byte{1}) == world().size());

  const std::string mine = "forebay-" + std::to_string(::getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    CHECK_FALSE(entry.path().filename().string().starts_with(mine));
}

TEST_CASE("more memory than the node has is an error on all ranks") {
  const auto copy = world().duplicate();
  CHECK_THROWS_WITH_AS(static_cast<void>(copy->share_on_node(std::size_t{1} << 60)), doctest::Contains("/dev/shm"),
                       forebay::Error);
  CHECK(copy->close(kPatience));
}

TEST_CASE("words reach every other rank of their communicator, in order, and no other communicator") {
  const auto copy = world().duplicate();
  const auto bystander = world().duplicate();
  const std::string longer(100'000, 'w');
  CHECK_FALSE(copy->listen());
  static_cast<void>(copy->all_gather(""));
  if (copy->rank() == 0) {
    for (const std::string& word : {std::string("one"), std::string(), longer}) copy->tell(word);
  } else {
    for (const std::string& word : {std::string("one"), std::string(), longer}) {
      std::optional<forebay::Notice> heard;
      REQUIRE(eventually([&] { return (heard = copy->listen()).has_value(); }));
      CHECK(heard->rank == 0);
      CHECK(heard->text == word);
    }
  }
  CHECK_FALSE(bystander->listen());
  CHECK(copy->close(kPatience));
  CHECK(bystander->close(kPatience));
}

TEST_CASE("close receives words that were not listened for, and completes open sums") {
  for (int round = 0; round < 20; ++round) {
    const auto copy = world().duplicate();
    std::vector<std::array<std::int64_t, 2>> values(Communicator::kChannels, {1, 2});
    for (std::size_t channel = 0; channel < values.size(); ++channel) copy->start_reduction(channel, values[channel]);
    if (copy->rank() % 2 == 0 || round % 2 == 0) copy->tell("unheard");
    CHECK(copy->close(kPatience));
    CHECK(copy->close(kPatience));
  }
}

TEST_CASE("close gives up when another rank never comes, and the rest of MPI keeps working") {
  auto copy = world().duplicate();
  auto values = std::make_unique<std::array<std::int64_t, 2>>();
  copy->start_reduction(0, *values);
  if (copy->rank() == 0) {
    copy->tell("never heard");
    const bool alone = copy->size() == 1;
    CHECK(copy->close(alone ? kPatience : 0.02) == alone);
    CHECK(copy->close(alone ? kPatience : 0.02) == alone);
  }
  // The others leave without closing, with an operation open, and free its memory at once.
  copy.reset();
  values.reset();
  const auto next = world().duplicate();
  CHECK(next->all_gather("x").size() == world().size());
  CHECK(next->close(kPatience));
}

TEST_CASE("close does not wait for a sum that can never complete") {
  const auto copy = world().duplicate();
  std::array<std::int64_t, 1> value{1};
  if (copy->rank() == 0) copy->start_reduction(0, value);
  CHECK(copy->close(kPatience));
}

TEST_CASE("a wait for texts that never come can be broken, and the ranks still part in order") {
  if (world().size() == 1) return;
  const auto copy = world().duplicate();
  struct Enough {};
  copy->while_waiting([&] {
    if (copy->listen()) throw Enough();
  });
  if (copy->rank() == 0) {
    copy->tell("enough");
  } else {
    CHECK_THROWS_AS(static_cast<void>(copy->all_gather("is anybody there?")), Enough);
    CHECK(copy->gathers() == 0);
    CHECK_THROWS_AS(static_cast<void>(copy->all_gather("")), forebay::Error);
  }
  copy->while_waiting({});
  CHECK(copy->close(kPatience));
}

TEST_CASE("a communicator is made from the trainer's own, and only from one it can use") {
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(world().rank() % 2), 0, &mine);
  const auto half = forebay::make_communicator(mine);
  MPI_Comm_free(&mine);  // the duplicate stays valid
  CHECK(half->size() == (world().size() + 1 - world().rank() % 2) / 2);
  CHECK(half->all_gather("x").size() == half->size());
  CHECK(half->close(kPatience));
  CHECK_THROWS_AS(static_cast<void>(forebay::make_communicator(MPI_COMM_NULL)), forebay::Error);
}

TEST_CASE("at MPI_THREAD_FUNNELED another thread may not make a communicator") {
  std::string refused;
  std::thread([&] {
    try {
      static_cast<void>(forebay::make_communicator(MPI_COMM_SELF));
    } catch (const forebay::Error& error) {
      refused = error.what();
    }
  }).join();
  CHECK(contains(refused, "MPI_THREAD_SERIALIZED"));
}

TEST_CASE("a census of ranks out of step applies every report exactly lag steps later") {
  for (const std::size_t lag : {0U, 1U, 2U, 15U}) {
    const auto copy = world().duplicate();
    const std::size_t expected_lag = copy->size() == 1 ? 0 : lag;
    const auto ranks = static_cast<std::int64_t>(copy->size());
    std::mt19937 random(copy->rank());
    volatile std::uint64_t sink = 0;
    Census census(*copy, lag);
    for (std::uint64_t step = 0; step < 300; ++step) {
      for (auto spins = random() % 20'000; spins > 0; --spins) sink = sink + spins;
      census.post({.stop = copy->rank() == step % copy->size(), .new_bad = static_cast<std::int64_t>(step)});
      const JobReport* report = census.due();
      REQUIRE((report != nullptr) == (step >= expected_lag));
      if (report == nullptr) continue;
      CHECK(report->step == step - expected_lag);
      CHECK(report->stops == 1);
      CHECK(report->new_bad == static_cast<std::int64_t>(report->step) * ranks);
    }
    CHECK(copy->close(kPatience));
  }
}

// Shared memory of a node's ranks when /dev/shm is full, and when memfd_create() fails.

bool is_shm_full = false;
bool has_no_memfd = false;

}  // namespace
}  // namespace forebay

// Replaces the C library's function.
extern "C" int shm_open(const char* name, int flags, mode_t mode) noexcept {
  if (forebay::is_shm_full) {
    errno = ENOSPC;
    return -1;
  }
  return ::open(("/dev/shm" + std::string(name)).c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (forebay::has_no_memfd) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

namespace forebay {
namespace {

// Disables ways to share memory while it exists.
struct Without {
  Without(bool shm, bool memfd) {
    is_shm_full = shm;
    has_no_memfd = memfd;
  }
  ~Without() { is_shm_full = has_no_memfd = false; }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;
};

TEST_CASE("ranks share memory whether /dev/shm has room or not, and no name is left") {
  for (const bool full : {false, true}) {
    const Without without(full, !full);
    const auto copy = world().duplicate();
    const auto memory = copy->share_on_node(copy->size());
    memory->bytes()[copy->rank()] = std::byte{1};
    static_cast<void>(copy->all_gather(""));  // everybody has written
    CHECK(std::ranges::count(memory->bytes(), std::byte{1}) == copy->size());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      CHECK_FALSE(entry.path().filename().string().starts_with("forebay-" + std::to_string(::getpid()) + "-"));
    }
    CHECK(copy->close(kPatience));
  }
}

TEST_CASE("where ranks can share no memory each has its own, all hear the same cause, and people once") {
  const Without without(true, true);
  const auto copy = world().duplicate();
  const std::string cause = testing::error_of([&] { static_cast<void>(copy->share_on_node(64)); });
  CHECK(contains(cause, "rank 0: shm_open: No space left on device"));
  for (const std::string& theirs : copy->all_gather(cause)) CHECK(theirs == cause);

  std::vector<std::string> lines;
  forebay::Options options = forebay::testing::memory_options(2);
  options.run.epochs = 1;
  forebay::Parts parts{.dataset = std::make_shared<forebay::testing::MemoryDataset>(16)};
  parts.log = [&lines](forebay::LogLevel, std::string_view text) { lines.emplace_back(text); };
  forebay::Feeder feeder(options, world(), std::move(parts));
  while (feeder.next()) {
  }
  feeder.close();
  const auto told = std::ranges::count_if(
      lines, [](const std::string& line) { return contains(line, "each rank has a copy of its own"); });
  CHECK(told == (copy->rank() == 0 ? 1 : 0));
  CHECK(copy->close(kPatience));
}

}  // namespace
}  // namespace forebay

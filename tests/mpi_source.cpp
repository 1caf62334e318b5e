#include <forebay/source_feeder.hpp>

#include "feeder/source_intake.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

// Batches that the program makes itself, on one and on several ranks.
namespace forebay::test_mpi_source {
namespace {

using namespace testing;

// Batches of two numbers: batch i of rank r in epoch e is 100 r + 10 e + i. A gate is called before
// each batch, and may wait or throw. `batches`: the number of batches in an epoch.
class Numbers final : public BatchSource {
 public:
  using Gate = std::function<void(std::uint64_t epoch, std::int64_t batch)>;

  explicit Numbers(std::int64_t batches, Gate gate = {}, bool has_state = false)
      : Numbers([batches](std::uint64_t) { return batches; }, std::move(gate), has_state) {}
  explicit Numbers(std::function<std::int64_t(std::uint64_t epoch)> batches, Gate gate = {}, bool has_state = false)
      : batches_(std::move(batches)), gate_(std::move(gate)), has_state_(has_state) {}

  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void begin_epoch(std::uint64_t epoch) override {
    if (epoch == fails_in) throw std::out_of_range("the third");
    epoch_ = epoch;
    if (!std::exchange(is_restored_, false)) next_ = 0;
  }
  [[nodiscard]] bool next() override {
    if (gate_) gate_(epoch_, next_);
    return ++next_ <= batches_(epoch_);
  }
  void fill(std::size_t field, std::span<std::byte> to) override {
    REQUIRE(field == 0);
    const auto value = static_cast<std::int64_t>(100 * world().rank() + 10 * epoch_) + next_ - 1;
    const std::array<std::int64_t, 2> values{value, value};
    REQUIRE(to.size() == sizeof(values));
    std::memcpy(to.data(), values.data(), sizeof(values));
  }
  [[nodiscard]] std::string state() override { return has_state_ ? std::to_string(next_) : ""; }
  void restore(std::string_view state) override {
    next_ = std::stoll(std::string(state));
    is_restored_ = next_ <= batches_(0);  // otherwise the position is at the end of an epoch
  }

  std::uint64_t fails_in = UINT64_MAX;  // fails when this epoch begins

 private:
  std::vector<Field> fields_{{.name = "x", .kind = FieldKind::array, .dtype = DType::int64, .shape = {2}}};
  std::function<std::int64_t(std::uint64_t)> batches_;
  Gate gate_;
  bool has_state_;
  bool is_restored_ = false;
  std::uint64_t epoch_ = 0;
  std::int64_t next_ = 0;
};

Options options(const char* policy, std::int64_t epochs = 1) {
  Options options;
  options.run.epochs = epochs;
  options.policy.name = policy;
  options.policy.watchdog_s = 60;
  options.queue.capacity = 3;
  options.device = "host";
  options.telemetry.interval_s = 0;
  return options;
}

std::int64_t number(const Lease& batch) {
  const TensorView x = batch.field("x");
  CHECK(x.shape == Shape{1, 2});
  CHECK(x.as<std::int64_t>()[0] == x.as<std::int64_t>()[1]);
  return x.as<std::int64_t>()[0] - static_cast<std::int64_t>(100 * world().rank());
}

std::vector<std::int64_t> epoch_of(const std::unique_ptr<SourceFeeder>& batches, std::size_t most = 1000) {
  std::vector<std::int64_t> served;
  while (served.size() < most) {
    const auto batch = batches->next();
    if (!batch) break;
    served.push_back(number(*batch));
  }
  return served;
}

std::vector<std::int64_t> distinct(std::vector<std::int64_t> served) {
  std::ranges::sort(served);
  served.erase(std::ranges::unique(served).begin(), served.end());
  return served;
}

bool is_alike(std::size_t mine) {
  const auto texts = gather_texts(std::to_string(mine));
  return std::set<std::string>(texts.begin(), texts.end()).size() == 1;
}

using List = std::vector<std::int64_t>;

TEST_CASE("Epochs of a source end on all ranks after the same step, each batch served in order") {
  const std::int64_t mine = 4 + 3 * static_cast<std::int64_t>(world().rank());
  const auto batches = make_source_feeder(options("block", 3), world(), std::make_shared<Numbers>(mine));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    REQUIRE(batches->next_epoch());
    const List served = epoch_of(batches);
    List all;
    for (std::int64_t batch = 0; batch < mine; ++batch) all.push_back(10 * epoch + batch);
    CHECK(distinct(served) == all);
    CHECK(std::equal(all.begin(), all.end(), served.begin()));
    CHECK(is_alike(served.size()));
    if (world().size() == 1) CHECK(served.size() == all.size());
  }
  CHECK(batches->summary().fresh == 3 * static_cast<std::uint64_t>(mine));
  CHECK(batches->summary().epochs == 3);
  CHECK_FALSE(batches->next_epoch());
  CHECK_FALSE(batches->next());
}

TEST_CASE("The end of an epoch is no batch and no step: not of leases, figures and run.steps") {
  const std::uint64_t mine = 4 + world().rank();
  const std::uint64_t longest = 3 + world().size();
  const auto source = [mine] { return std::make_shared<Numbers>(static_cast<std::int64_t>(mine), nullptr, true); };
  Options counted = options("block");
  counted.run.steps = static_cast<std::int64_t>(2 * longest + 3);  // whatever run.epochs says
  auto batches = make_source_feeder(counted, world(), source());
  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t last_count = 0;
  const auto serve = [&](std::uint64_t most) {
    while (steps < most && batches->next_epoch()) {
      while (steps < most) {
        const auto batch = batches->next();
        if (!batch) break;
        CHECK(batch->step() == steps++);
        CHECK(batch->job_fresh_samples() >= last_count);
        last_count = batch->job_fresh_samples();
        if (world().size() == 1) CHECK(last_count == fresh);
        fresh += batch->is_fresh() ? 1 : 0;
      }
    }
  };
  serve(longest + 1);
  CHECK(batches->summary().steps == steps);
  CHECK(batches->summary().fresh == fresh);
  const std::string state = batches->state();
  batches->close();
  const std::uint64_t steps_before = steps;
  const std::uint64_t fresh_before = fresh;
  batches = make_source_feeder(counted, world(), source(), {}, state);
  serve(UINT64_MAX);
  CHECK(is_alike(steps));
  CHECK(steps == static_cast<std::uint64_t>(counted.run.steps));
  if (world().size() == 1) CHECK(fresh == steps);
  CHECK(fresh >= 2 * mine);
  CHECK(fresh <= 3 * mine);
  CHECK(batches->summary().steps == steps - steps_before);
  CHECK(batches->summary().fresh == fresh - fresh_before);
  CHECK_FALSE(make_source_feeder(counted, world(), source(), {}, batches->state())->next_epoch());
}

TEST_CASE("No source is an error, not a crash") {
  CHECK_THROWS_WITH_AS((void)make_source_feeder(options("block"), world(), nullptr),
                       doctest::Contains("needs a source of batches"), ConfigError);
}

TEST_CASE("An evaluation serves each batch once, whatever the policy") {
  const std::uint64_t mine = 4 + world().rank();
  Options evaluation = options("greedy", 3);
  evaluation.run.eval = true;
  const auto batches = make_source_feeder(
      evaluation, world(), std::make_shared<Numbers>(static_cast<std::int64_t>(mine), [](std::uint64_t, std::int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // late, for a policy that reuses
      }));
  REQUIRE(batches->next_epoch());
  List served;
  while (const auto batch = batches->next()) {
    if (batch->is_fresh()) served.push_back(number(*batch));
  }
  List all(mine);
  std::iota(all.begin(), all.end(), 0);
  CHECK(served == all);
  CHECK_FALSE(batches->next_epoch());
}

TEST_CASE("A batch that is late is not waited for") {
  std::atomic<bool> is_open{false};
  const auto batches = make_source_feeder(options("greedy"), world(),
                                          std::make_shared<Numbers>(5, [&](std::uint64_t, std::int64_t next) {
                                            for (int i = 0; next == 3 && !is_open && i < 6000; ++i) {
                                              std::this_thread::sleep_for(std::chrono::milliseconds(10));
                                            }
                                          }));
  REQUIRE(batches->next_epoch());
  List served;
  while (served.size() < 1'000'000 && (distinct(served).size() < 3 || served.size() < 50)) {
    std::ranges::copy(epoch_of(batches, 10), std::back_inserter(served));
  }
  CHECK(distinct(served) == List{0, 1, 2});
  is_open = true;
  std::ranges::copy(epoch_of(batches, 1'000'000), std::back_inserter(served));
  CHECK(distinct(served) == List{0, 1, 2, 3, 4});
}

TEST_CASE("A state continues behind what was served, with a source's own state or by passing batches over") {
  for (const bool has_state : {false, true}) {
    CAPTURE(has_state);
    std::string state;
    {
      const auto batches =
          make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(6, nullptr, has_state));
      REQUIRE(batches->next_epoch());
      CHECK(epoch_of(batches, 3) == List{0, 1, 2});
      state = batches->state();
    }
    const auto batches =
        make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(6, nullptr, has_state), {}, state);
    REQUIRE(batches->next_epoch());
    CHECK(distinct(epoch_of(batches)) == List{3, 4, 5});
    const std::string between = batches->state();
    REQUIRE(batches->next_epoch());
    CHECK(distinct(epoch_of(batches)) == List{10, 11, 12, 13, 14, 15});
    CHECK_FALSE(batches->next_epoch());
    batches->close();
    const auto last =
        make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(6, nullptr, has_state), {}, between);
    REQUIRE(last->next_epoch());
    CHECK(epoch_of(last, 2) == List{10, 11});
  }
  CHECK_THROWS_WITH_AS(
      (void)make_source_feeder(options("block"), world(), std::make_shared<Numbers>(6), {}, "forebay.source 1 0 0\n"),
      doctest::Contains("of version 4"), ConfigError);
}

// The sources are parts of the data, divided by the program.
TEST_CASE("A state resumes on its own rank, among as many ranks") {
  const auto make = [](const Communicator& ranks, std::string_view state) {
    return make_source_feeder(options("block"), ranks, std::make_shared<Numbers>(6), {}, state);
  };
  const std::string mine = make(world(), "")->state();
  const std::string size = std::to_string(world().size());
  if (world().size() > 1) {
    CHECK_THROWS_WITH_AS((void)make(*solo_communicator(), mine), doctest::Contains((" of " + size).c_str()),
                         ConfigError);
    const std::string alone = make(*solo_communicator(), "")->state();
    CHECK_THROWS_WITH_AS((void)make(world(), alone), doctest::Contains("of rank 0 of 1 where"), ConfigError);
    const std::vector<std::string> all = gather_texts(mine);  // a program that saves only rank 0's state
    CHECK_THROWS_WITH_AS(
        (void)make(world(), all[0]),
        doctest::Contains(("rank 0 of " + size + " where it is to resume on rank 1 of " + size).c_str()), ConfigError);
  }
  CHECK(make(world(), mine)->state() == mine);
}

// The feeder is const, because its epochs, state() and restore() are those of the ring, not of the
// source.
static_assert(std::is_same_v<decltype(std::declval<SourceFeeder&>().feeder()), const Feeder&>);

// Rank r has r + 2 batches.
TEST_CASE("A state of any step continues with what is left, though that be nothing on some rank") {
  const std::int64_t mine = 2 + world().rank();
  for (const bool has_state : {false, true}) {
    for (std::size_t steps = 1;; ++steps) {
      CAPTURE(has_state);
      CAPTURE(steps);
      const auto make = [&](std::string_view state) {
        auto batches = make_source_feeder(options("block", 2), world(),
                                          std::make_shared<Numbers>(mine, nullptr, has_state), {}, state);
        REQUIRE(batches->next_epoch());
        return batches;
      };
      auto batches = make("");
      List all = epoch_of(batches, steps);
      const bool is_over = all.size() < steps;
      all = distinct(all);
      const std::int64_t last = all.back();
      batches = make(batches->state());
      const List rest = epoch_of(batches);
      CHECK(is_alike(rest.size()));
      // The second epoch; a rank that waits for others serves batches of either epoch again.
      const auto is_whole = [&](List served) {
        served = distinct(served);
        return std::ranges::count_if(served, [](std::int64_t each) { return each >= 10; }) == mine;
      };
      if (is_over) {
        CHECK(is_whole(rest));
        CHECK(rest.front() == 10);
        CHECK_FALSE(batches->next_epoch());
        break;
      }
      for (const std::int64_t each : distinct(rest)) {
        if (each != last) all.push_back(each);
      }
      CHECK(all == distinct(all));  // only the last may be served again
      CHECK(all.size() == static_cast<std::size_t>(mine));
      REQUIRE(batches->next_epoch());
      CHECK(is_whole(epoch_of(batches)));
      CHECK_FALSE(batches->next_epoch());
    }
  }
}

TEST_CASE("An epoch without batches is empty, and no reuse serves what came in its place") {
  const auto some = [](std::uint64_t epoch) { return static_cast<std::int64_t>(epoch % 2) * 8; };
  const auto source = std::make_shared<Numbers>(some, [](std::uint64_t, std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough for a policy to reuse
  });
  if (world().size() > 1) {  // others may have batches, and this rank must wait until they are exhausted
    const auto batches = make_source_feeder(options("greedy", 4), world(), source);
    REQUIRE(batches->next_epoch());
    CHECK_THROWS_WITH_AS((void)epoch_of(batches), doctest::Contains("no batch by the end of epoch 0"), Error);
    const auto only = make_source_feeder(  // one rank has none, and the error names it on all ranks
        options("block"), world(), std::make_shared<Numbers>(world().rank() == 1 ? 0 : 40));
    REQUIRE(only->next_epoch());
    CHECK_THROWS_WITH_AS((void)epoch_of(only), doctest::Contains("rank 1: its source has had no batch"), Error);
    return;
  }
  const auto batches = make_source_feeder(options("greedy", 4), world(), source);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    REQUIRE(batches->next_epoch());
    List all;
    for (std::int64_t batch = 0; batch < some(static_cast<std::uint64_t>(epoch)); ++batch)
      all.push_back(10 * epoch + batch);
    const List served = distinct(epoch_of(batches, 1'000'000));
    CHECK(std::ranges::includes(served, all));
    CHECK((epoch > 0 || served.empty()));
    CHECK((served.empty() || served[0] >= 10));
  }
  CHECK_FALSE(batches->next_epoch());
}

TEST_CASE("After a stop, the run's steps or an error the state is of the middle of the epoch") {
  enum class End { stop, steps, error };
  for (const End end : {End::stop, End::steps, End::error}) {
    for (const bool has_state : {false, true}) {
      CAPTURE(static_cast<int>(end));
      CAPTURE(has_state);
      Options first = options("block", 2);
      if (end == End::steps) first.run.steps = 3;
      const bool fails = end == End::error && world().rank() == 0;
      auto batches = make_source_feeder(first, world(),
                                        std::make_shared<Numbers>(
                                            6,
                                            [&](std::uint64_t, std::int64_t next) {
                                              if (fails && next == 3) throw std::out_of_range("the fourth");
                                            },
                                            has_state));
      REQUIRE(batches->next_epoch());
      List all = epoch_of(batches, 3);
      if (end == End::stop) batches->request_stop();
      if (end == End::error) {
        while (true) {
          try {
            const List more = epoch_of(batches, 1);
            if (more.empty()) break;
            all.push_back(more[0]);
          } catch (const std::exception&) {
            break;
          }
        }
      } else {
        std::ranges::copy(epoch_of(batches), std::back_inserter(all));
      }
      CHECK_FALSE((end != End::error && batches->next_epoch()));
      const std::string state = batches->state();
      CHECK(is_alike(0));
      batches =
          make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(6, nullptr, has_state), {}, state);
      REQUIRE(batches->next_epoch());
      all = distinct(all);
      for (const std::int64_t each : distinct(epoch_of(batches))) all.push_back(each);
      CHECK(all == List{0, 1, 2, 3, 4, 5});
      REQUIRE(batches->next_epoch());
      CHECK(distinct(epoch_of(batches)) == List{10, 11, 12, 13, 14, 15});
    }
  }
}

TEST_CASE("A rank that leaves after the last of the run's steps ends no other, and one without its state is refused") {
  Options made = options("block", 2);
  made.run.steps = 5;
  std::string state;
  for (int round = 0; round < 8; ++round) {
    auto batches = make_source_feeder(made, world(), std::make_shared<Numbers>(9));
    REQUIRE(batches->next_epoch());
    for (int step = 0; step < 5; ++step) REQUIRE(batches->next());
    CHECK_FALSE(batches->next());
    if (world().rank() == 0) state = batches->state();
  }
  if (world().size() == 1) return;
  const auto resume = [&] { (void)make_source_feeder(made, world(), std::make_shared<Numbers>(9), {}, state); };
  CHECK(contains(error_of(resume), "the states of the ranks are of steps 0 to 5: give each rank its own state"));
}

TEST_CASE("A state of a finished run has no epoch more, and ranks begin with the same epoch") {
  auto batches = make_source_feeder(options("block", 1), world(), std::make_shared<Numbers>(2));
  const std::string begin = batches->state();
  REQUIRE(batches->next_epoch());
  (void)epoch_of(batches);
  const std::string end = batches->state();
  batches = make_source_feeder(options("block", 1), world(), std::make_shared<Numbers>(2), {}, end);
  CHECK_FALSE(batches->next_epoch());
  CHECK_FALSE(batches->next());
  CHECK(batches->state() == end);
  if (world().size() == 1) return;
  const bool is_last = world().rank() + 1 == world().size();
  const auto make = [&](std::int64_t epochs) {
    return make_source_feeder(options("block", epochs), world(), std::make_shared<Numbers>(2), {},
                              is_last ? end : begin);
  };
  const std::string who = "rank " + std::to_string(world().size() - 1);
  CHECK_THROWS_WITH_AS((void)make(2), doctest::Contains(("epoch 0 of 2 and " + who + " with epoch 1").c_str()),
                       ConfigError);
  CHECK_THROWS_WITH_AS((void)make(is_last ? 3 : 2), doctest::Contains(who.c_str()), ConfigError);
}

TEST_CASE("What the source throws leaves next() in its place, and other ranks throw it with the rank's number") {
  const bool fails = world().rank() == 0;
  Options quick = options("block");
  quick.policy.watchdog_s = 5;
  for (const bool between : {false, true}) {  // epochs
    CAPTURE(between);
    quick.run.epochs = 2;
    auto source = std::make_shared<Numbers>(between ? 3 : 30, [&](std::uint64_t, std::int64_t next) {
      if (fails && next == 2 && !between) throw std::out_of_range("the third");
    });
    if (fails && between) source->fails_in = 1;
    const auto batches = make_source_feeder(quick, world(), source);
    REQUIRE(batches->next_epoch());
    if (between) CHECK(distinct(epoch_of(batches)) == List{0, 1, 2});
    if (fails) {
      if (!between) CHECK(epoch_of(batches, 2) == List{0, 1});
      CHECK_THROWS_WITH_AS((void)(between ? batches->next_epoch() : batches->next().has_value()), "the third",
                           std::out_of_range);
      if (!between) CHECK_FALSE(batches->next_epoch());
    } else {
      (void)batches->next_epoch();
      CHECK_THROWS_WITH_AS((void)epoch_of(batches), "rank 0: the third", Error);
      CHECK_THROWS_WITH_AS((void)batches->next(), "rank 0: the third", Error);
    }
    CHECK(is_alike(0));  // no rank has closed its feeder
  }
}

TEST_CASE("What the program throws in a wait of one rank reaches the others, although it closes nothing") {
  if (world().size() == 1) return;
  const bool fails = world().rank() == 0;
  bool has_begun = false;
  std::atomic<bool> is_over{!fails};
  Parts parts;
  parts.while_waiting = [&] {
    if (fails && has_begun && !is_over) throw std::runtime_error("interrupted");
  };
  const auto gate = [&](std::uint64_t, std::int64_t next) {
    for (int i = 0; next >= 2 && !is_over && i < 6000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  Options quick = options("block");
  quick.policy.watchdog_s = 5;
  const auto batches = make_source_feeder(quick, world(), std::make_shared<Numbers>(100, gate), parts);
  REQUIRE(batches->next_epoch());
  has_begun = true;
  CHECK_THROWS_WITH((void)epoch_of(batches), doctest::Contains(fails ? "interrupted" : "rank 0: interrupted"));
  CHECK(is_alike(0));
  is_over = true;
}

TEST_CASE("A rank that waits for others has no cap of uses, and nobody's watchdog counts the time") {
  const bool is_early = world().rank() == 0;
  Options capped = options("block");
  capped.policy.max_uses = 2;
  capped.policy.watchdog_s = 1;
  const auto slow = [&](std::uint64_t, std::int64_t) {
    if (!is_early) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  };
  const std::size_t mine = is_early ? 2 : 30;
  const auto batches =
      make_source_feeder(capped, world(), std::make_shared<Numbers>(static_cast<std::int64_t>(mine), slow));
  REQUIRE(batches->next_epoch());
  CHECK(distinct(epoch_of(batches)).size() == mine);
}

TEST_CASE("The watchdog does not count the time in which the source waits for the next epoch") {
  if (world().size() > 1) return;
  Options quick = options("block", 2);
  quick.policy.watchdog_s = 1;
  quick.queue.capacity = 8;
  const auto batches = make_source_feeder(quick, world(), std::make_shared<Numbers>(6));
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    REQUIRE(batches->next_epoch());
    for (std::int64_t batch = 0; batch < 6; ++batch) {
      CHECK(epoch_of(batches, 1) == List{10 * epoch + batch});
      if (epoch == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    CHECK(epoch_of(batches).empty());
  }
}

TEST_CASE("Batches that a resumed run passes over show the watchdog that the source works") {
  if (world().size() > 1) return;
  auto batches = make_source_feeder(options("block"), world(), std::make_shared<Numbers>(30));
  REQUIRE(batches->next_epoch());
  (void)epoch_of(batches, 25);
  Options quick = options("block");
  quick.policy.watchdog_s = 1;
  const auto slow = [](std::uint64_t, std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(80)); };
  const std::string state = batches->state();
  batches = make_source_feeder(quick, world(), std::make_shared<Numbers>(30, slow), {}, state);
  REQUIRE(batches->next_epoch());
  CHECK(epoch_of(batches) == List{25, 26, 27, 28, 29});
  CHECK_THROWS_WITH_AS((void)make_source_feeder(quick, world(), std::make_shared<Numbers>(20), {}, state)->next(),
                       doctest::Contains("ended after 20 of the 25 batches"), Error);
}

TEST_CASE("A start that fails leaves no reader behind that waits for the next epoch") {
  if (world().size() == 1) return;
  const bool fails = world().rank() == 1;
  std::atomic<bool> is_asked{false};
  std::atomic<bool> is_open{false};
  int calls = 0;
  std::mutex mutex;
  std::string lines;
  Parts parts;
  parts.log = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.append(line).append("\n");
  };
  parts.while_waiting = [&] {
    if (!fails || !is_asked || ++calls < 20) return;
    is_open = true;
    throw std::runtime_error("not today");
  };
  const auto source = std::make_shared<Numbers>(1, [&](std::uint64_t, std::int64_t) {
    is_asked = true;
    for (int i = 0; fails && !is_open && i < 6000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  CHECK_THROWS_WITH_AS((void)make_source_feeder(options("block"), world(), source, parts),
                       doctest::Contains("rank 1: not today"), Error);
  const std::lock_guard lock(mutex);
  CHECK(lines.find("left behind") == std::string::npos);
}

TEST_CASE("Memory that is refused loses no batch of the source") {
  struct Target final : ReadTarget {
    std::span<std::byte> reserve(std::size_t bytes) override {
      if (std::exchange(refuses, false)) throw std::bad_alloc();
      memory.resize(bytes);
      return memory;
    }
    bool refuses = true;
    std::vector<std::byte> memory;
  } target;
  feeder::SourceIntake intake(std::make_shared<Numbers>(2), 4);
  intake.begin(0);
  CHECK_THROWS_AS(intake.read(0, target), std::bad_alloc);
  intake.read(0, target);
  intake.read_field(0, 0, target);
  CHECK(target.memory[0] == std::byte(100 * world().rank() % 256));
}

TEST_CASE("A feeder whose epoch is not served, whose source waits, or that is asked to stop ends") {
  {
    const auto batches = make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(50));
    REQUIRE(batches->next_epoch());
    CHECK(epoch_of(batches, 2) == List{0, 1});
  }
  const auto batches = make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(2));
  REQUIRE(batches->next_epoch());
  (void)epoch_of(batches);
  batches->close();  // its reader is waiting for the next epoch
  const auto stopped = make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(1000));
  REQUIRE(stopped->next_epoch());
  (void)stopped->next();
  stopped->request_stop();
  (void)epoch_of(stopped);
  CHECK_FALSE(stopped->next_epoch());
}

TEST_CASE("Fields of a source are arrays, and its ranks are not in lockstep") {
  Options alike = options("block");
  alike.mpi.mode = MpiMode::lockstep;
  CHECK_THROWS_WITH_AS((void)make_source_feeder(alike, world(), std::make_shared<Numbers>(6)),
                       doctest::Contains("lockstep"), ConfigError);
  class Images final : public BatchSource {
    [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
    void begin_epoch(std::uint64_t) override {}
    [[nodiscard]] bool next() override { return false; }
    void fill(std::size_t, std::span<std::byte>) override {}
    std::vector<Field> fields_{{.name = "depth", .kind = FieldKind::image}};
  };
  CHECK_THROWS_WITH_AS((void)make_source_feeder(options("block"), world(), std::make_shared<Images>()),
                       doctest::Contains("\"depth\" of a source of batches is of kind image"), ConfigError);
}

}  // namespace
}  // namespace forebay::test_mpi_source

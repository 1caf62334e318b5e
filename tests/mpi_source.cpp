#include <forebay/source_feeder.hpp>

#include "mpi_world.hpp"
#include "test.hpp"

// Batches that the program makes, on one rank and on several.
namespace forebay::test_mpi_source {
namespace {

using namespace testing;

// Batches of two numbers: of rank r in epoch e, 100 r + 10 e + i. A gate is asked before each batch, and may wait or
// throw.
class Numbers final : public BatchSource {
 public:
  using Gate = std::function<void(std::uint64_t epoch, std::int64_t batch)>;

  explicit Numbers(std::int64_t batches, Gate gate = {}, bool has_state = false)
      : batches_(batches), gate_(std::move(gate)), has_state_(has_state) {}

  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void begin_epoch(std::uint64_t epoch) override {
    epoch_ = epoch;
    if (!std::exchange(is_restored_, false)) next_ = 0;
  }
  [[nodiscard]] bool next() override {
    if (gate_) gate_(epoch_, next_);
    return ++next_ <= batches_;
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
    is_restored_ = next_ <= batches_;  // else it is behind the end of an epoch
  }

 private:
  std::vector<Field> fields_{{.name = "x", .kind = FieldKind::array, .dtype = DType::int64, .shape = {2}}};
  std::int64_t batches_;
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
  CHECK_FALSE(batches->next_epoch());
  CHECK_FALSE(batches->next());
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
      (void)make_source_feeder(options("block"), world(), std::make_shared<Numbers>(6), {}, "forebay.source 2 0 0\n"),
      doctest::Contains("of version 1"), ConfigError);
}

TEST_CASE("What the source throws leaves next() in its place; other ranks do not hang") {
  const bool fails = world().rank() == 0;
  const auto batches = make_source_feeder(options("block"), world(),
                                          std::make_shared<Numbers>(1000, [&](std::uint64_t, std::int64_t next) {
                                            if (fails && next == 2) throw std::out_of_range("the third");
                                          }));
  REQUIRE(batches->next_epoch());
  if (fails) {
    CHECK(epoch_of(batches, 2) == List{0, 1});
    CHECK_THROWS_WITH_AS((void)batches->next(), "the third", std::out_of_range);
    CHECK_FALSE(batches->next_epoch());
    batches->close();
  } else {
    CHECK_THROWS_AS(epoch_of(batches), Error);
  }
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
  batches->close();  // its reader waits for the next epoch
  const auto stopped = make_source_feeder(options("block", 2), world(), std::make_shared<Numbers>(1000));
  REQUIRE(stopped->next_epoch());
  (void)stopped->next();
  stopped->feeder().request_stop();
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

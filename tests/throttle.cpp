#include "read/throttle.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

// The emulated storage: latency, failures, outages and a bandwidth that readers and ranks share.
namespace forebay::test_throttle {
namespace {

using namespace forebay::read;
using namespace std::chrono_literals;

constexpr double kForEver = std::numeric_limits<double>::infinity();

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments latency_ms(const StorageOptions& options, int draws) {
  const StorageThrottle throttle(options, 17);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < draws; ++i) {
    const auto draw = throttle.draw({.position = static_cast<std::uint64_t>(i)}, 0);
    const double ms = std::chrono::duration<double, std::milli>(draw.latency).count();
    sum += ms;
    squares += ms * ms;
  }
  const double mean = sum / draws;
  return {.mean = mean, .deviation = std::sqrt(squares / draws - mean * mean)};
}

// Samples with two fields, of which one has its own file.
class TwoFields final : public forebay::testing::FakeDataset {
 public:
  using FakeDataset::FakeDataset;
  [[nodiscard]] std::span<const forebay::Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override {
    return field == 0 ? std::to_string(id) + ".mask" : "";
  }
  void read_field(std::uint64_t /*id*/, std::size_t /*field*/, forebay::ReadTarget& target) const override {
    std::ranges::fill(target.reserve(10), std::byte{1});
  }

 private:
  std::vector<forebay::Field> fields_{{.name = "mask", .kind = forebay::FieldKind::bytes, .shape = {10}},
                                      {.name = "age", .kind = forebay::FieldKind::bytes, .shape = {10}}};
};

class Count final : public forebay::read::SampleHandler {
 public:
  std::uint32_t handle(const forebay::read::EncodedSample& /*sample*/, unsigned /*thread*/) override {
    ++handled;
    changed.notify_all();
    return 1;
  }
  std::atomic<int> handled{0};
  forebay::WaitPoint changed;
};

template <typename Wait>
void check_interrupted(Wait&& wait) {
  StopSignal stop;
  bool stopped = false;
  std::jthread sleeper([&] {
    try {
      wait(stop);
    } catch (const forebay::Stopped&) {
      stopped = true;
    }
  });
  stop.raise();
  sleeper.join();
  CHECK(stopped);
}

}  // namespace

TEST_CASE("without options the throttle is inactive, with any of them it is not") {
  CHECK_FALSE(StorageThrottle({}, 1).is_active());
  CHECK_FALSE(StorageThrottle({.jitter = 0.5, .burst_mb = 3, .outage_s = 1}, 1).is_active());
  CHECK(StorageThrottle({.latency_ms = 1}, 1).is_active());
  CHECK(StorageThrottle({.bandwidth_mb_s = 1}, 1).is_active());
  CHECK(StorageThrottle({.outage_every_s = 1, .outage_s = 1}, 1).is_active());
  CHECK(StorageThrottle({.fail_rate = 0.1}, 1).is_active());
  CHECK(StorageThrottle({.slow_rate = 0.1, .slow_ms = 1}, 1).is_active());
  CHECK_FALSE(StorageThrottle({.slow_rate = 0.1}, 1).is_active());
  CHECK_FALSE(StorageThrottle({.slow_ms = 1}, 1).is_active());
}

TEST_CASE("latency has the configured mean and coefficient of variation") {
  for (const double jitter : {0.1, 0.5, 1.0, 2.0}) {
    CAPTURE(jitter);
    const Moments moments = latency_ms({.latency_ms = 5, .jitter = jitter}, 100'000);
    CHECK(std::abs(moments.mean - 5.0) < 0.05 + 0.1 * jitter);
    CHECK(std::abs(moments.deviation / moments.mean - jitter) < 0.03 * (1 + jitter));
  }
}

TEST_CASE("latency with jitter 1 is exponential") {
  const StorageThrottle throttle({.latency_ms = 10, .jitter = 1}, 3);
  constexpr int kDraws = 50'000;
  int above_mean = 0;
  int above_thrice = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto latency = throttle.draw({.position = i}, 0).latency;
    above_mean += latency > 10ms ? 1 : 0;
    above_thrice += latency > 30ms ? 1 : 0;
  }
  CHECK(std::abs(above_mean / double{kDraws} - std::exp(-1.0)) < 0.01);
  CHECK(std::abs(above_thrice / double{kDraws} - std::exp(-3.0)) < 0.005);
}

TEST_CASE("latency without jitter is constant") {
  const Moments moments = latency_ms({.latency_ms = 2.5}, 100);
  CHECK(moments.mean == doctest::Approx(2.5));
  CHECK(moments.deviation < 1e-6);
}

TEST_CASE("a draw depends on seed, epoch, position, attempt and retry, and on nothing else") {
  const StorageOptions options{.latency_ms = 5, .jitter = 0.5};
  const StorageThrottle throttle(options, 17);
  const ReadRequest request{.order = 3, .epoch = 1, .position = 100, .sample = 9, .attempt = 0, .slot = 2, .index = 5};
  const auto latency = throttle.draw(request, 0).latency;
  CHECK(throttle.draw(request, 0).latency == latency);
  CHECK(StorageThrottle(options, 17).draw({.order = 99, .epoch = 1, .position = 100}, 0).latency == latency);
  CHECK(throttle.draw(request, 1).latency != latency);
  CHECK(throttle.draw({.epoch = 1, .position = 101}, 0).latency != latency);
  CHECK(throttle.draw({.epoch = 2, .position = 100}, 0).latency != latency);
  CHECK(throttle.draw({.epoch = 1, .position = 100, .attempt = 1}, 0).latency != latency);
  CHECK(StorageThrottle(options, 18).draw(request, 0).latency != latency);
  CHECK(throttle.draw(request, 0, 0).latency == latency);
  CHECK(throttle.draw(request, 0, 1).latency != latency);
  CHECK(throttle.draw(request, 0, 1).latency != throttle.draw(request, 0, 2).latency);
}

TEST_CASE("reads fail at the configured rate, and a retry draws again") {
  const StorageThrottle throttle({.fail_rate = 0.2}, 17);
  int failed = 0;
  int failed_twice = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    const bool first = throttle.draw({.position = i}, 0).fails;
    failed += first ? 1 : 0;
    failed_twice += first && throttle.draw({.position = i}, 1).fails ? 1 : 0;
  }
  CHECK(std::abs(failed - 10'000) < 500);
  CHECK(std::abs(failed_twice - 2'000) < 250);
  CHECK(StorageThrottle({.fail_rate = 1}, 1).draw({}, 0).fails);
  CHECK_FALSE(StorageThrottle({}, 1).draw({}, 0).fails);
}

TEST_CASE("some reads are slow, and a second read of a sample draws another time and the same failure") {
  const StorageThrottle throttle({.latency_ms = 2, .slow_rate = 0.0025, .slow_ms = 100, .fail_rate = 0.2}, 17);
  int slow = 0;
  int slow_twice = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const auto first = throttle.draw({.position = i}, 0);
    const auto second = throttle.draw({.position = i, .hedge = 7}, 0);
    REQUIRE((first.latency == 2ms || first.latency == 102ms));
    REQUIRE((second.latency == 2ms || second.latency == 102ms));
    REQUIRE(first.fails == second.fails);
    REQUIRE(second.latency == throttle.draw({.position = i, .hedge = 8}, 0).latency);
    slow += first.latency > 2ms ? 1 : 0;
    slow_twice += first.latency > 2ms && second.latency > 2ms ? 1 : 0;
  }
  CHECK(std::abs(slow - 250) < 60);
  CHECK(slow_twice < 10);
  const StorageThrottle jittered({.latency_ms = 5, .jitter = 0.5}, 17);
  CHECK(jittered.draw({.position = 3, .hedge = 1}, 0).latency != jittered.draw({.position = 3}, 0).latency);
}

TEST_CASE("a drawn failure is a transient sample error") {
  StopSignal stop;
  const StorageThrottle throttle({.fail_rate = 1}, 1);
  try {
    throttle.before_read({}, 0, stop);
    FAIL("the read did not fail");
  } catch (const forebay::SampleError& error) {
    CHECK(error.is_transient());
  }
}

TEST_CASE("outages begin after the interval and recur after each end") {
  const StorageThrottle::Clock::time_point start{1000s};
  const StorageThrottle throttle({.outage_every_s = 10, .outage_s = 4}, 1, {}, start);
  const auto left = [&](std::chrono::milliseconds after) {
    const auto now = start + after;
    return std::chrono::round<std::chrono::milliseconds>(throttle.outage_end(now) - now);
  };
  CHECK(left(0ms) == 0ms);
  CHECK(left(9'999ms) == 0ms);
  CHECK(left(10'001ms) == 3'999ms);
  CHECK(left(13'999ms) == 1ms);
  CHECK(left(14'001ms) == 0ms);
  CHECK(left(23'999ms) == 0ms);
  CHECK(left(25'000ms) == 3'000ms);
  CHECK(left(1'400'000ms + 12'000ms) == 2'000ms);
}

TEST_CASE("an outage may last for ever") {
  const StorageThrottle::Clock::time_point start{1000s};
  const StorageThrottle throttle({.outage_every_s = 2, .outage_s = kForEver}, 1, {}, start);
  CHECK(throttle.outage_end(start + 1s) == start + 1s);
  CHECK(throttle.outage_end(start + 3s) == StorageThrottle::Clock::time_point::max());
  CHECK(throttle.outage_end(start + 1'000'000s) == StorageThrottle::Clock::time_point::max());
}

TEST_CASE("bandwidth: transfers queue up behind each other") {
  std::int64_t finish = 0;
  const BandwidthBucket bucket(1e6, 0, finish);  // a byte per microsecond
  CHECK(bucket.claim(1'000'000, 500) == 1'500'000);
  CHECK(bucket.claim(1'000'000, 500) == 2'000'000);
  CHECK(bucket.claim(1'900'000, 100) == 2'100'000);
  CHECK(bucket.claim(5'000'000, 100) == 5'100'000);  // idle time does not accumulate
}

TEST_CASE("bandwidth: after idle time a burst passes at once, and no more") {
  std::int64_t finish = 0;
  const BandwidthBucket bucket(1e6, 1000, finish);
  const std::int64_t now = 10'000'000;
  CHECK(bucket.claim(now, 600) <= now);
  CHECK(bucket.claim(now, 400) == now);
  CHECK(bucket.claim(now, 100) == now + 100'000);
  CHECK(bucket.claim(now + 600'000, 600) == now + 700'000);  // time for 500 bytes has accrued
}

TEST_CASE("bandwidth shared by ranks adds up, whichever rank claims") {
  std::int64_t finish = 0;
  constexpr int kThreads = 4;
  constexpr int kClaims = 5'000;
  {
    std::vector<std::jthread> ranks;
    ranks.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      ranks.emplace_back([&finish] {
        const BandwidthBucket bucket(1e9, 0, finish);
        for (int claim = 0; claim < kClaims; ++claim) static_cast<void>(bucket.claim(1'000, 7));
      });
    }
  }
  CHECK(finish == 1'000 + std::int64_t{kThreads} * kClaims * 7);
}

TEST_CASE("ranks of a node share their bandwidth, ranks on their own do not") {
  alignas(std::int64_t) std::array<std::byte, StorageThrottle::kSharedBytes> memory{};
  const auto finish = [&] { return *reinterpret_cast<const std::int64_t*>(memory.data()); };
  StopSignal stop;
  StorageOptions options{.bandwidth_mb_s = 1000, .scope = forebay::StorageScope::rank};
  StorageThrottle(options, 1, memory).after_read(1000, stop);
  CHECK(finish() == 0);
  options.scope = forebay::StorageScope::node;
  StorageThrottle(options, 1, memory).after_read(1000, stop);
  const std::int64_t first = finish();
  CHECK(first > 0);
  StorageThrottle(options, 2, memory).after_read(1000, stop);
  CHECK(finish() >= first + 1000);
}

TEST_CASE("shared memory that cannot hold the finish time is refused") {
  alignas(std::int64_t) std::array<std::byte, 16> memory{};
  const StorageOptions options{.bandwidth_mb_s = 1, .scope = forebay::StorageScope::node};
  CHECK_THROWS_AS(StorageThrottle(options, 1, std::span(memory).first(4)), forebay::Error);
  CHECK_THROWS_AS(StorageThrottle(options, 1, std::span(memory).subspan(1)), forebay::Error);
}

TEST_CASE("a field with a file of its own is a request of its own, which may fail by itself") {
  constexpr int kSamples = 200;
  const StorageThrottle throttle({.fail_rate = 0.3}, 17);
  std::uint64_t retries = 0;
  std::uint64_t retries_for_images = 0;
  for (std::uint64_t id = 0; id < kSamples; ++id) {
    const auto fails = [&](std::uint32_t retry, std::size_t part) {
      return throttle.draw({.position = id}, retry, part).fails;
    };
    for (std::uint32_t retry = 0; fails(retry, 0) || fails(retry, 1); ++retry) ++retries;
    for (std::uint32_t retry = 0; fails(retry, 0); ++retry) ++retries_for_images;
  }
  CHECK(retries > retries_for_images);
  const TwoFields dataset(kSamples);
  forebay::testing::Stage stage(kSamples);
  Count handler;
  forebay::make::DecoderPool decoders(stage.decoder_links(handler), 1);
  forebay::read::ReaderLinks links = stage.reader_links(dataset);
  links.throttle = &throttle;
  forebay::read::ReaderPool readers(links, {.threads = 4, .attempts = 100, .backoff = 1ns});
  for (std::uint64_t id = 0; id < kSamples; ++id) stage.request(id);
  CHECK(handler.changed.wait_until(forebay::testing::limit(), [&] { return handler.handled == kSamples; }));
  CHECK(stage.totals.retries == retries);
  CHECK(stage.reports.count() == 0);
}

TEST_CASE("a stop ends every wait of the throttle") {
  SUBCASE("latency") {
    const StorageThrottle throttle({.latency_ms = 1e9}, 1);
    check_interrupted([&](StopSignal& stop) { throttle.before_read({}, 0, stop); });
  }
  SUBCASE("a latency beyond all clocks") {
    const StorageThrottle throttle({.latency_ms = 1e300}, 1);
    check_interrupted([&](StopSignal& stop) { throttle.before_read({}, 0, stop); });
  }
  SUBCASE("outage before the read") {
    const StorageThrottle throttle({.outage_every_s = 1e-9, .outage_s = kForEver}, 1);
    check_interrupted([&](StopSignal& stop) { throttle.before_read({}, 0, stop); });
  }
  SUBCASE("outage during the read") {
    const StorageThrottle throttle({.outage_every_s = 1e-9, .outage_s = kForEver}, 1);
    check_interrupted([&](StopSignal& stop) { throttle.after_read(1, stop); });
  }
  SUBCASE("bandwidth") {
    const StorageThrottle throttle({.bandwidth_mb_s = 1e-9}, 1);
    check_interrupted([&](StopSignal& stop) { throttle.after_read(1'000'000, stop); });
  }
}

}  // namespace forebay::test_throttle

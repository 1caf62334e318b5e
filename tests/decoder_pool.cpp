// The threads behind the readers: what their handler throws, and how they stop.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "base/wait.hpp"
#include "reader_stage.hpp"

namespace {

using namespace forebay;
using namespace std::chrono_literals;
using testing::eventually;
using testing::limit;
using testing::Stage;
using testing::Tally;

constexpr ReaderOptions kOneReader{.threads = 1, .attempts = 4, .backoff = 1us};

}  // namespace

TEST_CASE("decoders report bad samples, return their bytes and know their own numbers") {
  Stage stage(100, 2000);
  Tally tally(100);
  std::atomic<bool> number_too_large{false};
  tally.before = [&](const EncodedSample& sample, unsigned thread) {
    if (thread >= 3) number_too_large = true;
    if (sample.request.sample % 10 == 3) throw SampleError("not a JPEG");
  };
  DecoderPool decoders(stage.decoder_links(tally), 3);
  ReaderPool readers(stage.reader_links(), {.threads = 2});
  for (std::uint64_t id = 0; id < 100; ++id) stage.request(id);
  REQUIRE(tally.wait_for(90));
  REQUIRE(stage.reports.wait_for(10));
  CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
  decoders.stop();
  CHECK(stage.totals.samples == 90);
  CHECK_FALSE(number_too_large);
  CHECK(std::ranges::all_of(stage.reports.bad, [](std::uint64_t id) { return id % 10 == 3; }));
}

TEST_CASE("any other exception of the handler ends the run with it") {
  Stage stage(1);
  Tally tally(1);
  tally.before = [](const EncodedSample&, unsigned) { throw std::runtime_error("a bug in the decoder"); };
  DecoderPool decoders(stage.decoder_links(tally), 2);
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  REQUIRE(stage.reports.wait_for(1));
  CHECK(stage.reports.failures == std::vector<std::string>{"a bug in the decoder"});
}

TEST_CASE("decoders stop while samples are queued") {
  Stage stage(10);
  WaitPoint gate;
  std::atomic<bool> stopping{false};
  std::atomic<int> begun{0};
  Tally tally(10);
  tally.before = [&](const EncodedSample&, unsigned) {
    ++begun;
    gate.notify_all();
    gate.wait_until(limit(), [&] { return stopping.load(); });
  };
  DecoderPool decoders(stage.decoder_links(tally), 2);
  std::vector<EncodedSample> samples;
  for (std::uint64_t id = 0; id < 10; ++id)
    samples.push_back({.request = {.order = id, .sample = id}, .bytes = stage.budget.take(id, 1)});
  stage.encoded.push(samples);
  REQUIRE(gate.wait_until(limit(), [&] { return begun.load() == 2; }));
  stage.encoded.close();
  stopping = true;
  gate.notify_all();
  decoders.stop();
  CHECK(tally.handled == 2);
}

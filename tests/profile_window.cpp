// Figures of a profile out of what was seen of the workers.
#include <doctest/doctest.h>

#include <chrono>

#include "measure/profiler.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using Activity = WorkerStatus::Activity;

// Observations of two readers, one of them parked for half of the time, and a decoder.
struct Observed {
  Observation now;
  void pass(std::chrono::nanoseconds time) {
    now.at += time;
    const auto spend = [](ActivityTimes& times, Activity activity, std::chrono::nanoseconds s) {
      times[static_cast<std::size_t>(activity)] += s;
    };
    spend(now.readers, Activity::reading, time);
    spend(now.readers, Activity::parked, time / 2);
    spend(now.readers, Activity::waiting_budget, time / 4);
    spend(now.readers, Activity::idle, time / 4);
    spend(now.decoders, Activity::decoding, time / 2);
    spend(now.decoders, Activity::idle, time / 2);
    spend(now.issuer, Activity::waiting_slot, time);
    now.decoder_cpu += time / 4;
    now.reader_cpu += time / 5;
    now.process_cpu += time;
    now.blocked += time / 10;
    now.reads += 100;
    now.samples += 100;
    now.shrinkable += 25;
    now.own_jpeg += 75;
    now.indexed_jpeg += 50;
    now.bytes_read += 1'000'000;
    ++now.published;
  }
};

TEST_CASE("shares, rates and occupancy out of observations, until nothing is left to produce") {
  const ProfileFrame frame{.batch_size = 100, .workers_bytes = 1000, .cores = 4, .decode_fixed = true};
  Observed observed;
  observed.pass(3s);  // before the window
  observed.now.planned = 5;
  observed.now.capacity = 2;
  ProfileWindow window(frame, observed.now);
  observed.now.depth = 2;
  observed.now.encoded = 10;
  observed.now.bytes_in_flight = 950;
  observed.pass(1s);
  window.add(observed.now);
  observed.now.depth = 0;
  observed.now.encoded = 0;
  observed.now.bytes_in_flight = 100;
  observed.now.most_bytes_in_flight = 980;
  observed.pass(1s);
  window.add(observed.now);
  for (int i = 0; i < 100; ++i) {  // the workers idle after the last batch
    observed.pass(1s);
    observed.now.published = 5;
    window.add(observed.now);
  }
  const Profile p = window.figures();
  CHECK(p.window_s == doctest::Approx(2));
  CHECK(p.batches == 2);
  CHECK(p.storage.threads == doctest::Approx(1.5));
  CHECK(p.storage.busy == doctest::Approx(2.0 / 3));
  CHECK(p.storage.blocked_out == doctest::Approx(1.0 / 6));
  CHECK(p.storage.blocked_in == doctest::Approx(1.0 / 6));
  CHECK(p.storage.images_per_s == doctest::Approx(100));
  CHECK(p.storage.images_per_s_alone == doctest::Approx(150));
  CHECK(p.read_ms == doctest::Approx(10));
  CHECK(p.decode.threads == doctest::Approx(1));
  CHECK(p.decode.busy == doctest::Approx(0.5));
  CHECK(p.decode.images_per_s_alone == doctest::Approx(200));
  CHECK(p.decode_ms == doctest::Approx(5));
  CHECK(p.decoder_cpu == doctest::Approx(0.5));
  CHECK(p.order.blocked_out == doctest::Approx(1));
  CHECK(p.producer_blocked == doctest::Approx(0.1));
  CHECK(p.read_mb_s == doctest::Approx(1));
  CHECK(p.ring.mean == doctest::Approx(1));
  CHECK(p.ring.full == doctest::Approx(0.5));
  CHECK(p.ring.empty == doctest::Approx(0.5));
  CHECK(p.encoded.mean == doctest::Approx(5));
  CHECK(p.encoded.full == 0);
  CHECK(p.bytes.full == doctest::Approx(0.5));
  CHECK(p.bytes.most == 980);
  CHECK(p.reader_cores == doctest::Approx(0.2));
  CHECK(p.process_cores == doctest::Approx(1));
  CHECK(p.shrinkable == doctest::Approx(0.25));
  CHECK(p.own_jpeg == doctest::Approx(0.75));
  CHECK(p.indexed_jpeg == doctest::Approx(0.5));
  CHECK(p.decode_fixed == 1);
  CHECK(p.ring.least == 0);  // it was full, and then empty
  CHECK(p.encoded.least == 0);
}

TEST_CASE("reads of decoders are reads, and work of the decoders") {
  const auto place = [](Activity activity) { return static_cast<std::size_t>(activity); };
  Observation now;
  now.planned = 5;
  ProfileWindow window({.batch_size = 100, .cores = 2}, now);
  now.at += 1s;
  now.published = 1;
  now.reads = now.samples = 100;
  now.readers[place(Activity::idle)] = 2s;
  now.decoders[place(Activity::decoding)] = 500ms;
  now.decoders[place(Activity::reading)] = 400ms;
  now.decoders[place(Activity::idle)] = 100ms;
  now.decoder_cpu = 900ms;
  window.add(now);
  const Profile p = window.figures();
  CHECK(p.storage.threads == doctest::Approx(2));
  CHECK(p.storage.busy == 0);
  CHECK(p.storage.blocked_in == doctest::Approx(1));
  CHECK(p.storage.images_per_s == doctest::Approx(100));
  CHECK(p.storage.images_per_s_alone == doctest::Approx(500));  // by two readers, 4 ms each
  CHECK(p.read_ms == doctest::Approx(4));
  CHECK(p.decode.threads == doctest::Approx(1));
  CHECK(p.decode.busy == doctest::Approx(0.9));
  CHECK(p.decode.images_per_s_alone == doctest::Approx(100 / 0.9));
  CHECK(p.decoder_reads == doctest::Approx(4.0 / 9));
  CHECK(p.decode.blocked_in == doctest::Approx(0.1));
  CHECK(p.decode_ms == doctest::Approx(5));
  CHECK(p.decoder_cpu == doctest::Approx(1));
  CHECK(p.reader_cores == 0);
}

}  // namespace
}  // namespace forebay

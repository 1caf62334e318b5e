#include <forebay/profile.hpp>

#include "measure/profiler.hpp"
#include "test.hpp"

// What the profile of a run says limits its speed, and what it advises, for made-up figures of each
// kind of bottleneck.
namespace forebay::test_profile {

using namespace forebay::measure;

namespace {

using namespace std::chrono_literals;
using Activity = WorkerStatus::Activity;

bool says(const Profile& profile, std::string_view text) { return testing::contains(judge(profile).sentence, text); }

// A run of ten seconds in which all stages keep pace with each other.
Profile even() {
  Profile p;
  p.window_s = 10;
  p.batches = 200;
  p.storage = {.threads = 8, .busy = 0.5, .blocked_in = 0.5, .images_per_s = 1280, .images_per_s_alone = 2560};
  p.decode = {.threads = 2, .busy = 0.6, .blocked_in = 0.4, .images_per_s = 1280, .images_per_s_alone = 2133};
  p.trainer = {.threads = 1, .busy = 0.99, .blocked_in = 0.01, .images_per_s = 1280, .images_per_s_alone = 1300};
  p.read_ms = 3;
  p.decode_ms = 0.94;
  p.decoder_cpu = 1;
  p.fresh_fraction = 1;
  p.cores = 3;
  p.batch_size = 64;
  p.queue_capacity = 16;
  p.workers_bytes = 1 << 28;
  return p;
}

// The readers deliver less than decoders and trainer could take.
Profile slow_store() {
  Profile p = even();
  p.storage = {.threads = 8, .busy = 0.99, .blocked_in = 0.01, .images_per_s = 1600, .images_per_s_alone = 1616};
  p.read_ms = 5.1;
  p.read_mb_s = 170;
  p.decode = {.threads = 4, .busy = 0.4, .blocked_in = 0.6, .images_per_s = 1600, .images_per_s_alone = 4000};
  p.trainer = {.threads = 1, .busy = 0.5, .blocked_in = 0.5, .images_per_s = 1600, .images_per_s_alone = 3200};
  return p;
}

Profile slow_decoders() {
  Profile p = even();
  p.storage = {.threads = 8, .busy = 0.1, .blocked_in = 0.9, .images_per_s = 700, .images_per_s_alone = 7000};
  p.decode = {.threads = 1, .busy = 0.99, .blocked_in = 0.01, .images_per_s = 700, .images_per_s_alone = 707};
  p.decode_ms = 1.414;
  p.trainer = {.threads = 1, .busy = 0.5, .blocked_in = 0.5, .images_per_s = 700, .images_per_s_alone = 1400};
  return p;
}

TEST_CASE("too short: hardly any time, hardly a batch, or a ring that fills for the first time") {
  for (const auto& [window_s, batches, is_short] :
       {std::tuple{0.4, 1000U, true}, {10.0, 3U, true}, {2.0, 31U, true}, {2.0, 32U, false}, {6.0, 10U, false}}) {
    Profile p = slow_store();
    p.window_s = window_s;
    p.batches = batches;
    CAPTURES(window_s, batches);
    CHECK((judge(p).bound == Bound::too_short) == is_short);
  }
  CHECK(judge(Profile{}).bound == Bound::too_short);
  CHECK(judge(Profile{}).sentence.starts_with("too short to say"));
}

TEST_CASE("storage-bound: as many readers as Little's law asks for, and requests for all of them") {
  const Finding finding = judge(slow_store());
  CHECK(finding.bound == Bound::storage);
  CHECK(finding.sentence.starts_with("storage-bound: a read takes 5.10 ms"));
  CHECK(testing::contains(finding.sentence, "workers.io = 17 (now 8)"));  // 3200 images/s x 5.1 ms
  CHECK(testing::contains(finding.sentence, "170.0 MB/s"));
  CHECK(testing::contains(finding.sentence, "a policy that reuses"));
  CHECK_FALSE(testing::contains(finding.sentence, "queue.capacity"));

  Profile reusing = slow_store();
  reusing.trainer.blocked_in = 0;
  reusing.trainer.busy = 1;
  reusing.fresh_fraction = 0.5;
  CHECK(judge(reusing).bound == Bound::storage);
  CHECK_FALSE(says(reusing, "a policy that reuses"));

  Profile far = slow_store();
  far.read_ms = 1000;
  CHECK(says(far, "workers.io = 3200 (now 8) and queue.capacity = 51 (now 16)"));
}

TEST_CASE("storage-bound for want of requests, or of room for bytes") {
  Profile few = slow_store();
  few.storage.busy = 0.5;
  few.storage.blocked_in = 0.5;
  few.storage.threads = 32;
  few.batch_size = 4;
  few.queue_capacity = 4;
  const Finding requests = judge(few);
  CHECK(requests.bound == Bound::storage);
  CHECK(testing::contains(requests.sentence, "queue.capacity x dataset.batch_size = 16 samples"));
  CHECK(testing::contains(requests.sentence, "queue.capacity = 16 (now 4)"));

  Profile tight = slow_store();
  tight.storage.busy = 0.3;
  tight.storage.blocked_in = 0;
  tight.storage.blocked_out = 0.7;
  tight.workers_bytes = 1 << 20;
  CHECK(judge(tight).bound == Bound::storage);
  CHECK(says(tight, "workers.bytes = \"2 MiB\""));
}

TEST_CASE("small samples: readers and decoders share the cores, and neither stage is busy all the time") {
  Profile p = slow_store();
  p.read_ms = 0.004;
  p.storage.busy = 0.1;
  p.storage.blocked_in = 0.9;
  p.decode.threads = 2;
  p.decode.busy = 0.6;
  p.decoder_cpu = 1;
  p.cores = 2;
  p.process_cores = 1.95;
  p.reader_cores = 0.7;
  CHECK(judge(p).bound == Bound::decode);
  CHECK(says(p, "fills its 2 cores (decoders 1.2, readers 0.7, the rest 0.1)"));
  p.reader_cores = 1.3;
  p.decode.busy = 0.3;
  CHECK(judge(p).bound == Bound::storage);
  CHECK(says(p, "forebay pack"));
  p.process_cores = 1;  // the store is slow after all
  CHECK_FALSE(says(p, "fills"));
}

TEST_CASE("small samples that decoders read: they are busy, and part of that is reading") {
  Profile p = slow_decoders();
  p.cores = 2;
  p.decode.threads = 1;
  p.decode.busy = 0.97;
  p.decode_ms = 0.008;
  p.read_ms = 0.007;
  p.decoder_reads = 0.5;
  p.process_cores = 1.6;
  CHECK(judge(p).bound == Bound::decode);
  CHECK(says(p, "a sample takes 0.016 ms (0.007 ms of it to read) and the 1 decoder is busy for 97 %"));
  CHECK(says(p, "fewer files to open (forebay pack)"));
  p.decode.busy = 0.5;  // other processes use the cores
  p.process_cores = 1.95;
  p.reader_cores = 0.5;
  p.decode.threads = 2;
  CHECK(says(p, "forebay pack"));
}

TEST_CASE("decode-bound: more threads where there are cores, else more cores; fewer threads where they starve") {
  const Finding spare = judge(slow_decoders());
  CHECK(spare.bound == Bound::decode);
  CHECK(testing::contains(spare.sentence, "workers.decode = 2 (now 1; the rank has 3 cores)"));

  Profile full = slow_decoders();
  full.cores = 2;
  CHECK(judge(full).bound == Bound::decode);
  CHECK(says(full, "more cores (it has 2, about 3 would do)"));
  CHECK(says(full, "transform.size"));

  Profile starved = slow_decoders();
  starved.decode.threads = 4;
  starved.decoder_cpu = 0.61;
  CHECK(judge(starved).bound == Bound::decode);
  CHECK(says(starved, "decoders got 61 % of a core each"));
  CHECK(says(starved, "workers.decode = 3 (now 4)"));  // 4 * 61 % = 2.4 cores
}

TEST_CASE("decode-bound: never fewer decoders than what they get in sum, and own threads are nobody else's load") {
  Profile p = slow_decoders();
  p.cores = 2;
  p.decode.threads = 2;
  p.decoder_cpu = 0.71;
  p.reader_cores = 0.4;
  p.process_cores = 1.95;
  CHECK(judge(p).bound == Bound::decode);
  CHECK(says(p, "decoders got 71 % of a core each because this process fills its 2 cores"));
  CHECK(says(p, "readers 0.4"));
  CHECK_FALSE(says(p, "workers.decode"));
  CHECK_FALSE(says(p, "what else"));

  p.process_cores = 1.5;  // other processes use the other cores
  p.reader_cores = 0.05;
  CHECK(says(p, "used 1.5 of its 2 cores: see what else runs there"));
  for (const double share : {0.2, 0.5, 0.51, 0.76, 0.84}) {
    for (const double threads : {1.0, 2.0, 3.0, 8.0}) {
      p.decoder_cpu = share;
      p.decode.threads = threads;
      const std::string sentence = judge(p).sentence;
      const std::size_t at = sentence.find("workers.decode = ");
      CAPTURE(sentence);
      if (at != std::string::npos) CHECK(std::stod(sentence.substr(at + 17)) >= threads * share);
    }
  }
}

TEST_CASE("decode-bound: the core of a trainer that leaves it idle is a decoder's") {
  Profile p = slow_decoders();
  p.cores = 2;
  p.process_cores = 1.2;
  p.reader_cores = 0.1;
  CHECK(says(p, "workers.decode = 2 (now 1; the rank has 2 cores)"));
  p.process_cores = 1.9;
  CHECK(says(p, "more cores"));
}

TEST_CASE("decode-bound: sources far larger than the target are to be decoded smaller") {
  Profile p = slow_decoders();
  CHECK_FALSE(says(p, "scaled"));
  p.shrinkable = 0.9;
  CHECK(says(p, "transform.decode = \"scaled\""));
  CHECK(says(p, "90 % of the crops"));
  p.decoder_cpu = 0.5;
  CHECK(says(p, "transform.decode = \"scaled\""));
  p.decode.busy = 0.5;  // then decoding is not the limit
  CHECK_FALSE(says(p, "scaled"));
}

TEST_CASE("as many fixed decoders as cores beside a trainer that computes") {
  Profile p = slow_decoders();
  p.cores = 2;
  p.decode.threads = 2;
  p.decoder_cpu = 0.7;
  p.process_cores = 2;  // of which the trainer uses 0.6
  p.decode_fixed = 1;
  CHECK(says(p, "leave it at \"auto\""));
  p.decode_fixed = 0;
  CHECK_FALSE(says(p, "leave it at"));
  p.decode_fixed = 1;
  p.process_cores = 1.5;  // the trainer computes elsewhere
  CHECK_FALSE(says(p, "leave it at"));
  p.process_cores = 2;
  p.decode.threads = 1;
  CHECK_FALSE(says(p, "leave it at"));
}

TEST_CASE("trainer-bound: a full ring holds the producer up, and the trainer hardly waits") {
  Profile p = even();
  p.producer_blocked = 0.4;
  CHECK(judge(p).bound == Bound::trainer);
  CHECK(says(p, "AU is 99.0 %"));
  p.fresh_fraction = 0.5;
  CHECK(says(p, "reused on 50 % of the steps though batches were ready"));
  p.trainer.blocked_out = 0.3;
  CHECK(says(p, "30 % of the time for other ranks"));
}

TEST_CASE("trainer-bound: a large ring that never runs low may be smaller") {
  Profile p = even();
  p.producer_blocked = 0.4;
  p.batch_bytes = 37 * 1024.0 * 1024;
  CHECK_FALSE(says(p, "queue.capacity"));  // it was never full
  p.ring.least = 14;
  CHECK(says(p, "nothing to change but memory"));
  CHECK(says(p, "queue.capacity = 8 (now 16) would do and save 296 MiB"));
  for (auto& [what, other] : std::vector<std::pair<std::string, Profile>>{{"uneven", p}, {"small", p}, {"short", p}}) {
    if (what == "uneven") other.ring.least = 11;
    if (what == "small") other.batch_bytes = 1e6;
    if (what == "short") other.window_s = 4;
    CAPTURE(what);
    CHECK_FALSE(says(other, "queue.capacity"));
  }
}

TEST_CASE("balanced: nobody waits, production in bursts, or readers and decoders alike") {
  CHECK(judge(even()).bound == Bound::balanced);
  Profile bursts = even();
  bursts.producer_blocked = 0.3;
  bursts.trainer.blocked_in = 0.3;
  bursts.ring = {.mean = 10, .empty = 0.003};  // never out of batches: next() itself is slow
  CHECK(judge(bursts).bound == Bound::trainer);
  CHECK(says(bursts, "batches were ready (10.0 of 16 on average), yet next() took 30 % of the time"));
  CHECK_FALSE(says(bursts, "queue.capacity"));
  bursts.ring.empty = 0.25;
  CHECK(judge(bursts).bound == Bound::balanced);
  CHECK(says(bursts, "raise queue.capacity"));
  Profile both = slow_store();
  both.decode.busy = 0.95;
  CHECK(judge(both).bound == Bound::balanced);
  CHECK(says(both, "workers.io (now 8)"));
}

TEST_CASE("a job is the mean of its ranks, its rates their sum, its advice for each rank") {
  Profile fast = slow_store();
  fast.trainer.images_per_s = 2000;
  const std::array ranks{fast, slow_store()};
  const Profile job = combine(ranks);
  CHECK(job.ranks == 2);
  CHECK(job.batches == 400);
  CHECK(job.storage.threads == doctest::Approx(8));
  CHECK(job.storage.images_per_s == doctest::Approx(3200));
  CHECK(job.trainer.images_per_s == doctest::Approx(3600));
  CHECK(job.read_mb_s == doctest::Approx(340));
  CHECK(job.read_ms == doctest::Approx(5.1));
  CHECK(says(job, "workers.io = 17 (now 8)"));
  CHECK(slowest_rank(ranks) == 1);
  const std::string table = profile_table(ranks);
  CHECK(testing::contains(table, "slowest   rank 1 with 1600 fresh images/s: storage-bound"));
  CHECK(testing::contains(table, "mean of 2 ranks"));
  CHECK(table.ends_with(judge(job).sentence + "\n"));
  CHECK(combine({}).batches == 0);
}

TEST_CASE("a profile goes through JSON unchanged; anything else is an error") {
  Profile p = slow_store();
  p.ring = {.mean = 0.25, .most = 3, .empty = 0.75, .full = 0};
  p.bytes.most = 12345;
  const std::string json = to_json(p);
  CHECK(testing::contains(json, "\"bound\": \"storage-bound\""));
  const Profile back = profile_from_json(json);
  CHECK(to_json(back) == json);
  CHECK(back.batches == p.batches);
  CHECK(back.decode.images_per_s_alone == p.decode.images_per_s_alone);
  CHECK(back.ring.empty == p.ring.empty);
  CHECK_THROWS_AS((void)profile_from_json("{}"), Error);
  CHECK_THROWS_AS((void)profile_from_json("nonsense"), Error);
  CHECK_THROWS_AS((void)profile_from_json("{\"ranks\": \"two\"}"), Error);
}

// Figures of a profile from observations of the workers.

// Observations of a decoder and two readers, one of them parked half of the time.
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
}  // namespace forebay::test_profile

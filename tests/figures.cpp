// The table of figures: complete, and what a summary reads like.
#include <doctest/doctest.h>

#include <string>

#include "aggregate.hpp"
#include "measure/figures.hpp"

namespace forebay {
namespace {

TEST_CASE("every member of a record is one of its figures") {
  using forebay::testing::members;
  CHECK(members<Summary>() == summary_figures().size());
  CHECK(members<Interval>() == interval_figures().size());
  CHECK(members<StageProfile>() == stage_figures().size());
  CHECK(members<QueueProfile>() == queue_figures().size());
  CHECK(members<Profile>() == profile_figures().size() + profile_stages().size() + profile_queues().size());
}

TEST_CASE("a summary in words has a line for each group of figures, and leaves out what did not happen") {
  Summary summary;
  summary.steps = 400;
  summary.fresh = 160;
  summary.fresh_fraction = 0.4;
  summary.reused = 240;
  summary.epochs = 1;
  summary.au = 0.981;
  summary.fresh_au = 0.3924;
  summary.stall_s = 0.25;
  summary.produce_rate = 15.9;
  summary.consume_rate = 48.2;
  summary.images_per_s = 1234.5;
  summary.exhausted_steps = 7;
  summary.uses_p50 = 2;
  summary.uses_p99 = 9;
  summary.uses_max = 11;
  summary.adjacent_reuse_fraction = 0.25;
  summary.bytes_read = 12'345'678;
  const std::string usual =
      "steps     400: 160 fresh (40.0 %), 240 reused; 1 epoch complete\n"
      "time      AU 98.1 %, fresh AU 39.2 %, stall 0.250 s\n"
      "rates     lambda 15.90 batches/s, mu 48.20 steps/s; 1234 fresh images/s\n"
      "queue     exhausted at 7 steps; uses per batch p50 2, p99 9, most 11; 25.0 % of steps repeat the last batch\n";
  CHECK(summary_text(summary) == usual + "data      12.3 MB read, 0 bad samples\n");

  summary.bad_samples = 1;
  summary.left_out = 1;
  summary.hedged_reads = 6;
  summary.hedges_won = 5;
  summary.nvjpeg_fallbacks = 3;  // and no sample by nvJPEG, which would have stood first
  summary.dropped_records = 1;
  CHECK(summary_text(summary) ==
        usual +
            "data      12.3 MB read, 1 bad sample (1 left out), 6 slow reads begun twice (5 won)\n"
            "decoding  3 by libjpeg-turbo instead\n"
            "telemetry 1 record dropped\n");
}

}  // namespace
}  // namespace forebay

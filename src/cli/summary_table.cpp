#include "summary_table.hpp"

#include <spdlog/fmt/fmt.h>

#include <iterator>

namespace forebay {
namespace {

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string summary_table(std::string_view policy, const Summary& job, std::span<const Summary> ranks) {
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  };
  line("policy    {}, {} {}, {:.2f} s after {:.2f} s of start-up", policy, ranks.size(),
       ranks.size() == 1 ? "rank" : "ranks", job.wall_s, job.startup_s);
  line("steps     {}: {} fresh ({:.1f} %), {} reused; {} {} complete", job.steps, job.fresh, 100 * job.fresh_fraction,
       job.reused, job.epochs, job.epochs == 1 ? "epoch" : "epochs");
  constexpr double kShown_s = 0.001;
  const std::string for_ranks =
      job.census_wait_s < kShown_s ? "" : fmt::format(", {:.3f} s of it for other ranks", job.census_wait_s);
  line("time      AU {:.1f} %, fresh AU {:.1f} %, stall {:.3f} s ({:.2f} %){}", 100 * job.au, 100 * job.fresh_au,
       job.stall_s, share(job.stall_s, job.wall_s), for_ranks);
  line("rates     lambda {:.2f} batches/s, mu {:.2f} steps/s; {:.0f} fresh images/s", job.produce_rate,
       job.consume_rate, job.images_per_s);
  line(
      "queue     exhausted at {} steps; uses per batch p50 {}, p99 {}, most {}; {:.1f} % of steps repeat the last "
      "batch",
      job.exhausted_steps, job.uses_p50, job.uses_p99, job.uses_max, 100 * job.adjacent_reuse_fraction);
  const std::string hedged = job.hedged_reads == 0
                                 ? ""
                                 : fmt::format(", {} slow {} begun twice ({} won)", job.hedged_reads,
                                               job.hedged_reads == 1 ? "read" : "reads", job.hedges_won);
  const std::string left_out = job.left_out == 0 ? "" : fmt::format(" ({} left out)", job.left_out);
  line("data      {:.1f} MB read, {} bad {}{}{}", static_cast<double>(job.bytes_read) * 1e-6, job.bad_samples,
       job.bad_samples == 1 ? "sample" : "samples", left_out, hedged);
  if (job.nvjpeg_samples + job.nvjpeg_fallbacks > 0) {
    line("decoding  {} samples by nvJPEG, {} by libjpeg-turbo instead", job.nvjpeg_samples, job.nvjpeg_fallbacks);
  }
  if (ranks.size() == 1) return text;
  line("\n{:>6} {:>8} {:>8} {:>9} {:>9} {:>9} {:>10}", "rank", "steps", "fresh", "AU %", "stall %", "lambda",
       "images/s");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Summary& one = ranks[rank];
    line("{:>6} {:>8} {:>8} {:>9.1f} {:>9.2f} {:>9.2f} {:>10.0f}", rank, one.steps, one.fresh, 100 * one.au,
         share(one.stall_s, one.wall_s), one.produce_rate, one.images_per_s);
  }
  return text;
}

}  // namespace forebay

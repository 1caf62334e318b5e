#include <spdlog/fmt/fmt.h>

#include <iterator>
#include <string>
#include <utility>

#include <forebay/profile.hpp>

namespace forebay {
namespace {

std::string rate(double images_per_s) {
  constexpr double kUnknown = 1e7;  // a trainer without compute
  return images_per_s > 0 && images_per_s < kUnknown ? fmt::format("{:.0f}", images_per_s) : "-";
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

std::string profile_table(std::span<const Profile> ranks) {
  if (ranks.empty()) return "";
  const Profile job = ranks.size() == 1 ? ranks.front() : combine(ranks);
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  };
  const auto stage = [&](std::string_view name, const StageProfile& one) {
    line("{:<9} {:>7.1f} {:>8} {:>10} {:>11} {:>10} {:>10}", name, one.threads, percent_text(one.busy),
         percent_text(one.blocked_in), percent_text(one.blocked_out), rate(one.images_per_s),
         rate(one.images_per_s_alone));
  };
  line(
      "profile   {:.1f} s, {} batches{}", job.window_s, job.batches,
      ranks.size() > 1 ? fmt::format("; shares and threads: mean of {} ranks, images/s: their sum", ranks.size()) : "");
  line("{:<9} {:>7} {:>8} {:>10} {:>11} {:>10} {:>10}", "stage", "threads", "busy", "blocked-in", "blocked-out",
       "images/s", "alone");
  stage("order", job.order);
  stage("storage", job.storage);
  stage("decode", job.decode);
  stage("trainer", job.trainer);
  constexpr double kMebibyte = 1024 * 1024;
  line("ring      {:.1f} of {:.0f} batches ready; empty {}, full {} of the time; full ring blocked the producer {}",
       job.ring.mean, job.queue_capacity, percent_text(job.ring.empty), percent_text(job.ring.full),
       percent_text(job.producer_blocked));
  line(
      "encoded   {:.1f} samples wait for a decoder, none {} of the time; {:.1f} of {:.1f} MiB in flight, most {:.1f}, "
      "full {}",
      job.encoded.mean, percent_text(job.encoded.empty), job.bytes.mean / kMebibyte, job.workers_bytes / kMebibyte,
      job.bytes.most / kMebibyte, percent_text(job.bytes.full));
  line("samples   read in {:.2f} ms, decoded in {:.2f} ms; decoders got {:.0f} % of a core when busy; {:.1f} MB/s read",
       job.read_ms, job.decode_ms, 100 * job.decoder_cpu, job.read_mb_s);
  if (ranks.size() > 1) {
    const std::size_t slowest = slowest_rank(ranks);
    line("slowest   rank {} with {} fresh images/s: {}", slowest, rate(ranks[slowest].trainer.images_per_s),
         judge(ranks[slowest]).sentence);
  }
  line("{}", judge(job).sentence);
  return text;
}

}  // namespace forebay

#include "run_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <iterator>

#include <nlohmann/json.hpp>

#include "measure/figures.hpp"

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
  text += summary_text(job);
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

std::string with_profiles(const std::string& summary, std::span<const Profile> ranks) {
  using Json = nlohmann::ordered_json;
  Json job = Json::parse(summary);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    job["ranks"].at(rank)["profile"] = Json::parse(to_json(ranks[rank]));
  }
  job["profile"] = Json::parse(to_json(combine(ranks)));
  job["profile"]["slowest_rank"] = slowest_rank(ranks);
  return job.dump(2);
}

}  // namespace forebay

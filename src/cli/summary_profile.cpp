#include "summary_profile.hpp"

#include <cstddef>

#include <nlohmann/json.hpp>

namespace forebay {

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

#include <forebay/profile.hpp>

#include <algorithm>
#include <string>

#include "figure_json.hpp"
#include "figures.hpp"

namespace forebay {
namespace {

// Calls visit(part, figures of its record) for each stage and each queue.
template <typename Visit>
void for_each_part(Visit&& visit) {
  for (const auto& stage : profile_stages()) visit(stage, stage_figures());
  for (const auto& queue : profile_queues()) visit(queue, queue_figures());
}

}  // namespace

Profile combine(std::span<const Profile> ranks) {
  Profile job;
  combine_figures(profile_figures(), ranks, job);
  for_each_part([&](const auto& part, auto figures) {
    combine_figures(
        figures, ranks, job, [&](auto& profile) -> auto& { return profile.*part.place; });
  });
  return job;
}

std::size_t slowest_rank(std::span<const Profile> ranks) noexcept {
  const auto slowest =
      std::ranges::min_element(ranks, {}, [](const Profile& rank) { return rank.trainer.images_per_s; });
  return static_cast<std::size_t>(slowest - ranks.begin());
}

std::string to_json(const Profile& profile) {
  const Finding finding = judge(profile);
  FigureJson out;
  out["bound"] = name_of(finding.bound);
  out["sentence"] = finding.sentence;
  put_figures(out, profile_figures(), profile);
  for_each_part([&](const auto& part, auto figures) {
    put_figures(out[std::string(part.group)][std::string(part.name)], figures, profile.*part.place);
  });
  return out.dump(2);
}

Profile profile_from_json(const std::string& json) {
  try {
    const FigureJson object = FigureJson::parse(json);
    Profile out;
    get_figures(object, profile_figures(), out, "profile");
    for_each_part([&](const auto& part, auto figures) {
      get_figures(object.at(std::string(part.group)).at(std::string(part.name)), figures, out.*part.place, "profile");
    });
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("profile: not the JSON of a profile: " + std::string(e.what()));
  }
}

}  // namespace forebay

#include <forebay/profile.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

namespace forebay {
namespace {

using ProfileJson = nlohmann::ordered_json;

// Calls visit(group, key, field) for every number of a profile, in the order of the JSON. `group` is a path of objects.
template <typename ProfileType, typename Visit>
void for_each_number(ProfileType& profile, Visit&& visit) {
  const auto stage = [&](std::string_view group, auto& one) {
    visit(group, "threads", one.threads);
    visit(group, "busy", one.busy);
    visit(group, "blocked_in", one.blocked_in);
    visit(group, "blocked_out", one.blocked_out);
    visit(group, "images_per_s", one.images_per_s);
    visit(group, "images_per_s_alone", one.images_per_s_alone);
  };
  const auto queue = [&](std::string_view group, auto& one) {
    visit(group, "mean", one.mean);
    visit(group, "most", one.most);
    visit(group, "least", one.least);
    visit(group, "empty", one.empty);
    visit(group, "full", one.full);
  };
  visit("", "window_s", profile.window_s);
  stage("/stages/order", profile.order);
  stage("/stages/storage", profile.storage);
  stage("/stages/decode", profile.decode);
  stage("/stages/trainer", profile.trainer);
  queue("/queues/encoded", profile.encoded);
  queue("/queues/bytes", profile.bytes);
  queue("/queues/ring", profile.ring);
  visit("", "producer_blocked", profile.producer_blocked);
  visit("", "read_ms", profile.read_ms);
  visit("", "decode_ms", profile.decode_ms);
  visit("", "read_mb_s", profile.read_mb_s);
  visit("", "decoder_cpu", profile.decoder_cpu);
  visit("", "reader_cores", profile.reader_cores);
  visit("", "process_cores", profile.process_cores);
  visit("", "shrinkable", profile.shrinkable);
  visit("", "fresh_fraction", profile.fresh_fraction);
  visit("", "cores", profile.cores);
  visit("", "decode_fixed", profile.decode_fixed);
  visit("", "batch_size", profile.batch_size);
  visit("", "batch_bytes", profile.batch_bytes);
  visit("", "queue_capacity", profile.queue_capacity);
  visit("", "workers_bytes", profile.workers_bytes);
}

ProfileJson::json_pointer at(std::string_view group, std::string_view key) {
  return ProfileJson::json_pointer(std::string(group) + "/" + std::string(key));
}

std::array<StageProfile*, 4> stages_of(Profile& profile) {
  return {&profile.order, &profile.storage, &profile.decode, &profile.trainer};
}

}  // namespace

Profile combine(std::span<const Profile> ranks) {
  Profile out;
  out.ranks = ranks.size();
  if (ranks.empty()) return out;
  const auto count = static_cast<double>(ranks.size());
  std::vector<double> sums;
  for (const Profile& rank : ranks) {
    std::size_t i = 0;
    for_each_number(rank, [&](std::string_view, std::string_view, double value) {
      if (i == sums.size()) sums.push_back(0);
      sums[i++] += value;
    });
    out.batches += rank.batches;
  }
  std::size_t i = 0;
  for_each_number(out, [&](std::string_view, std::string_view, double& value) { value = sums[i++] / count; });
  for (StageProfile* const stage : stages_of(out)) {
    stage->images_per_s *= count;
    stage->images_per_s_alone *= count;
  }
  out.read_mb_s *= count;
  // What one rank needs, all have: they share one configuration.
  out.ring.least = std::ranges::min(ranks, {}, [](const Profile& rank) { return rank.ring.least; }).ring.least;
  return out;
}

std::size_t slowest_rank(std::span<const Profile> ranks) noexcept {
  const auto slowest =
      std::ranges::min_element(ranks, {}, [](const Profile& rank) { return rank.trainer.images_per_s; });
  return static_cast<std::size_t>(slowest - ranks.begin());
}

std::string to_json(const Profile& profile) {
  const Finding finding = judge(profile);
  ProfileJson out;
  out["bound"] = name_of(finding.bound);
  out["sentence"] = finding.sentence;
  out["ranks"] = profile.ranks;
  out["batches"] = profile.batches;
  for_each_number(profile,
                  [&](std::string_view group, std::string_view key, double value) { out[at(group, key)] = value; });
  return out.dump(2);
}

Profile profile_from_json(const std::string& json) {
  try {
    const ProfileJson object = ProfileJson::parse(json);
    Profile out;
    object.at("ranks").get_to(out.ranks);
    object.at("batches").get_to(out.batches);
    for_each_number(out, [&](std::string_view group, std::string_view key, double& value) {
      object.at(at(group, key)).get_to(value);
    });
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("profile: not the JSON of a profile: " + std::string(e.what()));
  }
}

}  // namespace forebay

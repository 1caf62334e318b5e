#include <forebay/summary.hpp>

#include <algorithm>
#include <string_view>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

#include "ratio.hpp"

namespace forebay {
namespace {

using Json = nlohmann::ordered_json;

// Calls visit(key, field) for every field of a summary, in the order of the JSON.
template <typename SummaryType, typename Visit>
void for_each_field(SummaryType& summary, Visit&& visit) {
  visit("steps", summary.steps);
  visit("fresh", summary.fresh);
  visit("reused", summary.reused);
  visit("fresh_fraction", summary.fresh_fraction);
  visit("startup_s", summary.startup_s);
  visit("wall_s", summary.wall_s);
  visit("compute_s", summary.compute_s);
  visit("stall_s", summary.stall_s);
  visit("au", summary.au);
  visit("fresh_au", summary.fresh_au);
  visit("images_per_s", summary.images_per_s);
  visit("produce_rate", summary.produce_rate);
  visit("consume_rate", summary.consume_rate);
  visit("blocked_s", summary.blocked_s);
  visit("census_waits", summary.census_waits);
  visit("census_wait_s", summary.census_wait_s);
  visit("ahead_s", summary.ahead_s);
  visit("exhausted_steps", summary.exhausted_steps);
  visit("uses_p50", summary.uses_p50);
  visit("uses_p99", summary.uses_p99);
  visit("uses_max", summary.uses_max);
  visit("adjacent_reuse_fraction", summary.adjacent_reuse_fraction);
  visit("bad_samples", summary.bad_samples);
  visit("left_out", summary.left_out);
  visit("epochs", summary.epochs);
  visit("bytes_read", summary.bytes_read);
  visit("hedged_reads", summary.hedged_reads);
  visit("hedges_won", summary.hedges_won);
  visit("nvjpeg_samples", summary.nvjpeg_samples);
  visit("nvjpeg_fallbacks", summary.nvjpeg_fallbacks);
  visit("dropped_records", summary.dropped_records);
}

Json object_of(const Summary& summary) {
  Json out = Json::object();
  for_each_field(summary, [&](std::string_view key, const auto& field) { out[std::string(key)] = field; });
  return out;
}

void read_field(const Json& object, std::string_view key, double& field) {
  const Json& value = object.at(std::string(key));
  if (!value.is_number()) throw Error("summary: \"" + std::string(key) + "\" is not a number: " + value.dump());
  field = value.get<double>();
}

void read_field(const Json& object, std::string_view key, std::uint64_t& field) {
  const Json& value = object.at(std::string(key));
  if (!value.is_number_unsigned()) throw Error("summary: \"" + std::string(key) + "\" is not a count: " + value.dump());
  field = value.get<std::uint64_t>();
}

}  // namespace

Summary combine(std::span<const Summary> ranks) {
  Summary out;
  if (ranks.empty()) return out;
  double adjacent_steps = 0;
  out.epochs = ranks.front().epochs;
  for (const Summary& rank : ranks) {
    out.steps += rank.steps;
    out.fresh += rank.fresh;
    out.reused += rank.reused;
    out.startup_s += rank.startup_s;
    out.wall_s += rank.wall_s;
    out.compute_s += rank.compute_s;
    out.stall_s += rank.stall_s;
    out.images_per_s += rank.images_per_s;
    out.produce_rate += rank.produce_rate;
    out.consume_rate += rank.consume_rate;
    out.blocked_s += rank.blocked_s;
    out.census_waits += rank.census_waits;
    out.census_wait_s += rank.census_wait_s;
    out.ahead_s += rank.ahead_s;
    out.exhausted_steps += rank.exhausted_steps;
    out.uses_p50 = std::max(out.uses_p50, rank.uses_p50);
    out.uses_p99 = std::max(out.uses_p99, rank.uses_p99);
    out.uses_max = std::max(out.uses_max, rank.uses_max);
    adjacent_steps += rank.adjacent_reuse_fraction * static_cast<double>(rank.steps);
    out.bad_samples = std::max(out.bad_samples, rank.bad_samples);
    out.left_out += rank.left_out;
    out.epochs = std::min(out.epochs, rank.epochs);
    out.bytes_read += rank.bytes_read;
    out.hedged_reads += rank.hedged_reads;
    out.hedges_won += rank.hedges_won;
    out.nvjpeg_samples += rank.nvjpeg_samples;
    out.nvjpeg_fallbacks += rank.nvjpeg_fallbacks;
    out.dropped_records += rank.dropped_records;
  }
  const auto steps = static_cast<double>(out.steps);
  out.fresh_fraction = ratio(static_cast<double>(out.fresh), steps);
  out.adjacent_reuse_fraction = ratio(adjacent_steps, steps);
  out.au = ratio(out.compute_s, out.wall_s);
  out.fresh_au = out.au * out.fresh_fraction;
  const auto count = static_cast<double>(ranks.size());
  for (double* mean : {&out.startup_s, &out.wall_s, &out.compute_s, &out.stall_s, &out.blocked_s, &out.census_wait_s,
                       &out.ahead_s, &out.consume_rate}) {
    *mean /= count;
  }
  return out;
}

std::string to_json(const Summary& summary) { return object_of(summary).dump(2); }

std::string to_json(const Summary& job, std::span<const Summary> ranks) {
  Json out = object_of(job);
  out["ranks"] = Json::array();
  for (const Summary& rank : ranks) out["ranks"].push_back(object_of(rank));
  return out.dump(2);
}

Summary summary_from_json(const std::string& json) {
  try {
    const Json object = Json::parse(json);
    Summary out;
    for_each_field(out, [&](std::string_view key, auto& field) { read_field(object, key, field); });
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("summary: not the JSON of a summary: " + std::string(e.what()));
  }
}

}  // namespace forebay

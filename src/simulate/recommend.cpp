#include "recommend.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

namespace forebay {
namespace {

constexpr std::array<std::int64_t, 6> kCapacities{4, 8, 16, 32, 64, 128};
constexpr std::array<std::int64_t, 5> kPools{1, 2, 4, 8, 16};
// In order of preference when they do equally well.
constexpr std::array<const char*, 4> kPolicies{"adaptive", "proportional", "greedy", "watermark"};
constexpr double kMostStall = 0.001;
constexpr double kEnoughFresh = 0.995;
constexpr double kEvenEnough = 1.1;

Prediction predict(const Scenario& recorded, const QueueOptions& queue, const PolicyOptions& policy,
                   const PolicyRegistry& registry) {
  Scenario scenario = recorded;
  scenario.queue = queue;
  scenario.policy = policy;
  return {.queue = queue, .policy = policy, .outcome = simulate(scenario, registry)};
}

std::vector<Prediction> predict_all(const Scenario& recorded, const Options& configured,
                                    const PolicyRegistry& registry) {
  std::vector<Prediction> predictions;
  QueueOptions queue = configured.queue;
  PolicyOptions policy = configured.policy;
  policy.max_uses = 0;
  policy.max_wait_ms = 0;
  for (const char* const name : kPolicies) {
    policy.name = name;
    for (const std::int64_t capacity : kCapacities) {
      queue.capacity = capacity;
      for (const std::int64_t pool : kPools) {
        queue.pool = pool;
        policy.pick = pool == 1 ? Pick::current : Pick::least_used;
        predictions.push_back(predict(recorded, queue, policy, registry));
      }
    }
  }
  return predictions;
}

bool stalls(const Prediction& prediction) {
  return prediction.outcome.stall_s > kMostStall * prediction.outcome.wall_s;
}

Prediction choose(std::vector<Prediction> predictions) {
  // Policies that do not wait never stall.
  std::erase_if(predictions, stalls);
  // Batches ready at the end are not lost: a short recording must not count a reserve as waste.
  const auto fresh = [](const Prediction& prediction) {
    return static_cast<double>(prediction.outcome.fresh + prediction.outcome.left);
  };
  const double most = fresh(std::ranges::max(predictions, {}, fresh));
  std::erase_if(predictions, [&](const Prediction& one) { return fresh(one) < kEnoughFresh * most; });
  const auto evenness = [](const Prediction& prediction) { return prediction.outcome.evenness; };
  const double best = std::ranges::min(predictions, {}, evenness).outcome.evenness;
  std::erase_if(predictions, [&](const Prediction& one) { return evenness(one) > kEvenEnough * best; });
  return std::ranges::min(predictions, {}, &Prediction::slots);  // the first of equals: the preferred policy
}

}  // namespace

Scenario scenario_of(std::span<const Trace> traces) {
  Scenario scenario;
  scenario.ranks = traces.size();
  scenario.step_s = traces.front().step_s;
  scenario.steps = traces.front().steps;
  for (const Trace& trace : traces) scenario.sources.push_back(trace.source);
  return scenario;
}

Recommendation recommend(std::span<const Trace> traces, const Options& configured, const PolicyRegistry& registry) {
  const Scenario recorded = scenario_of(traces);
  Recommendation recommendation{
      .configured = predict(recorded, configured.queue, configured.policy, registry),
      .recommended = choose(predict_all(recorded, configured, registry)),
      .capped = {},
  };
  recommendation.capped = recommendation.recommended;
  const Outcome& outcome = recommendation.recommended.outcome;
  const auto cap = static_cast<std::int64_t>(2 * outcome.uses_p99);
  if (cap < static_cast<std::int64_t>(outcome.uses_max)) {
    PolicyOptions policy = recommendation.recommended.policy;
    policy.max_uses = cap;
    recommendation.capped = predict(recorded, recommendation.recommended.queue, policy, registry);
  }
  return recommendation;
}

}  // namespace forebay

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "dataset_support.hpp"
#include "job.hpp"
#include "once_audit.hpp"

namespace forebay::experiments {
namespace {

using testing::FreshSeen;
using testing::OnceAudit;
using testing::OnceCase;
using testing::Seen;

// The steps that a rank wrote down, of which a kill may have cut the last line.
Seen read_steps(const std::filesystem::path& file) {
  Seen seen;
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line) && !lines.eof()) {
    std::istringstream words(line);
    testing::StepSeen step;
    FreshSeen fresh{.step = seen.steps.size()};
    words >> step.job_fresh_samples >> step.epochs_completed >> step.fresh_samples >> fresh.epoch >> fresh.batch;
    seen.steps.push_back(step);
    if (step.fresh_samples > 0) seen.fresh.push_back(fresh);
  }
  return seen;
}

bool has_ended(const JobSettings& settings, std::uint32_t part, std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string how = testing::read_text(settings.end_seen(part, rank));
    if (!how.ends_with(" end\n")) return false;
  }
  return true;
}

struct PartSeen {
  std::vector<Seen> ranks;
  std::uint64_t kept = 0;  // of its steps, those before the state that was saved last
  bool has_ended = false;
};

// `before`: steps of the job before this part. Nothing when the part has not saved a state.
std::optional<PartSeen> read_part(const JobSettings& settings, std::uint32_t part, std::uint32_t ranks,
                                  std::uint64_t before) {
  const std::string text = testing::read_text(settings.folder / "shared" / (std::to_string(part) + ".state"));
  if (text.empty()) return std::nullopt;
  const testing::ReadState state = testing::read_state_text(text);
  PartSeen seen{.ranks = {}, .kept = state.steps - before, .has_ended = has_ended(settings, part, ranks)};
  std::size_t steps = SIZE_MAX;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    seen.ranks.push_back(read_steps(settings.steps_seen(part, rank)));
    steps = std::min(steps, seen.ranks.back().steps.size());
  }
  for (Seen& rank : seen.ranks) {
    rank.steps.resize(steps);
    std::erase_if(rank.fresh, [steps](const FreshSeen& fresh) { return fresh.step >= steps; });
    rank.states.push_back({seen.kept, text});
    rank.steps_at_end = state.steps;
    rank.epochs_at_end = state.epochs;
    rank.has_ended = seen.has_ended ? 1 : 0;
    if (steps < seen.kept) rank.complaints.emplace_back("the state is of a step that a rank has not made");
  }
  return seen;
}

// How often each batch of the job was served fresh before the state that the job goes on from.
class Counts {
 public:
  void add(const PartSeen& part) {
    for (const Seen& rank : part.ranks) {
      for (const FreshSeen& fresh : rank.fresh) {
        if (fresh.step >= part.kept) continue;
        ++times_[{fresh.epoch, fresh.batch}];
        samples_of_[fresh.batch] = rank.steps[fresh.step].fresh_samples;
      }
    }
  }
  [[nodiscard]] std::uint64_t doubled() const {
    std::uint64_t samples = 0;
    for (const auto& [batch, times] : times_) samples += (times - 1) * samples_of_.at(batch.second);
    return samples;
  }
  [[nodiscard]] std::uint64_t served() const {
    std::uint64_t samples = 0;
    for (const auto& [batch, times] : times_) samples += samples_of_.at(batch.second);
    return samples;
  }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> times_;  // by epoch and batch
  std::map<std::uint64_t, std::uint64_t> samples_of_;                       // by batch
};

}  // namespace

int audit(const JobSettings& settings) {
  OnceCase job = job_of(settings);
  const std::uint64_t samples = job.samples * settings.epochs;
  std::vector<PartSeen> seen;
  std::vector<testing::Part> parts;
  std::uint64_t before = 0;
  for (std::uint32_t part = 0; part < job.parts.size(); ++part) {
    auto read = read_part(settings, part, job.parts[part].ranks, before);
    if (!read) continue;  // what it served is served again
    testing::Part made = std::move(job.parts[part]);
    made.stop = read->has_ended ? testing::StopBy::end : testing::StopBy::checkpoint;
    made.steps = read->kept;
    made.lost_steps = read->ranks.front().steps.size() - std::min(read->kept, read->ranks.front().steps.size());
    before += read->kept;
    parts.push_back(std::move(made));
    seen.push_back(*std::move(read));
  }
  if (parts.empty()) throw std::runtime_error("no part of the job has saved a state");
  job.parts = std::move(parts);

  OnceAudit once(job);
  Counts counts;
  for (const PartSeen& part : seen) {
    counts.add(part);
    once.add(part.ranks);
  }
  const nlohmann::ordered_json result{{"lost", samples - counts.served()},
                                      {"doubled", counts.doubled()},
                                      {"ended", seen.back().has_ended},
                                      {"kept_steps", seen.front().kept},
                                      {"violations", once.violations()}};
  std::printf("%s\n", result.dump().c_str());
  const bool is_right = counts.served() == samples && counts.doubled() == 0 && once.violations().empty();
  return is_right && seen.back().has_ended ? 0 : 1;
}

}  // namespace forebay::experiments

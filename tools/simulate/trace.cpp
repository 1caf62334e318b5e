// Turns a recorded run into a source: reads steps.RANK.jsonl of each rank, and finds when batches
// became ready and how long steps took. Also recommends a configuration that would have suited the
// run.
//
// The difference of `produced` between two steps says how many batches became ready between their
// times. They are spread evenly over that span on the producer's own clock, which stops while its
// queue is full. So the recording gives the work per batch independent of the queue it had.
//
// recommend() predicts the run for a grid of capacities, pools and policies, drops those that stall
// or waste batches, keeps the even ones, and chooses the one with the fewest slots.

#include "trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include <nlohmann/json.hpp>

#include "base/file_io.hpp"
#include "base/json_numbers.hpp"
#include "base/text.hpp"
#include "measure/bounded_lines.hpp"
#include "measure/run_files.hpp"
#include "rank_model.hpp"

namespace forebay::simulate {
namespace {

namespace fs = std::filesystem;

// The values of a step's line that are used here.
struct Line {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t use_index = 0;
  std::uint64_t depth = 0;
  std::uint64_t produced = 0;
  double t_s = 0;
  double wait_s = 0;
  double step_s = 0;
  double blocked_s = 0;
};

// A real line has a few hundred bytes and no nested lists.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 8;
// The most batches that a file may claim: those before the first line, plus a generous number per
// line. A larger number means that the file is damaged, and would exhaust the memory.
constexpr std::uint64_t kMostBefore = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostOfLine = 4096;

// A time in seconds, small enough that sums and differences remain finite.
double seconds(const nlohmann::json& json, const char* key) {
  constexpr double kLongest = 1e9;
  const double value = json.at(key);
  if (std::abs(value) <= kLongest) return value;
  throw Error(std::string(key) + " is " + shortest(value) + " s, which no run takes");
}

// All keys must be present, so that a file of another kind is refused at its first line.
Line parse(const std::string& text) {
  if (json_depth(text) > kDeepest) throw Error("nested too deep");
  const auto json = nlohmann::json::parse(text);
  return {.step = whole_number<std::uint64_t>(json, "step"),
          .epoch = whole_number<std::uint64_t>(json, "epoch"),
          .batch = whole_number<std::uint64_t>(json, "batch"),
          .use_index = whole_number<std::uint64_t>(json, "use_index"),
          .depth = whole_number<std::uint64_t>(json, "depth"),
          .produced = whole_number<std::uint64_t>(json, "produced"),
          .t_s = seconds(json, "t_s"),
          .wait_s = seconds(json, "wait_s"),
          .step_s = seconds(json, "step_s"),
          .blocked_s = seconds(json, "blocked_producer_s")};
}

// RANK of "steps.RANK.jsonl"; nothing for other files, including the one that holds earlier lines.
std::optional<std::uint32_t> rank_of(const fs::path& file) {
  const std::string text = file.filename().string();
  const std::optional<measure::RankFileName> name = measure::rank_file_name(text);
  return name && name->kind == "steps" && !name->goes_on ? std::optional(name->rank) : std::nullopt;
}

// The lines of one rank, checked one by one: those of its file and, if telemetry was bounded, those before them.
class Reader {
 public:
  // If the size of telemetry is bounded, an earlier file has the lines that come first.
  explicit Reader(const fs::path& file) {
    if (rank_of(file)) {
      auto lines = measure::open_bounded<Source>(file, open);
      if (lines.earlier) files_.push_back(*std::move(lines.earlier));
      if (lines.latest) files_.push_back(*std::move(lines.latest));
    }
    if (files_.empty()) files_.push_back(open(file));
  }

  // The lines since the last resume. A run that resumes from a saved state appends to the same file
  // and restarts clock and counts, so earlier lines say nothing about its production. If lines were
  // dropped (telemetry.max_bytes), the batches before the first that was kept are subtracted, but
  // for those that were ready at it.
  std::vector<Line> read() {
    std::string text;
    while (next(text)) {
      const std::optional<Line> line = line_in(text);
      if (!line) continue;  // the end of its file
      if (last_step_ && line->step <= *last_step_) refuse("steps go backwards: two runs in one file?");
      last_step_ = line->step;
      if (!lines_.empty() && begins_anew(lines_.back(), *line)) lines_.clear();
      lines_.push_back(*line);
      if (lines_.size() == 1) {
        const std::uint64_t ready = std::max<std::uint64_t>(1, line->depth);
        before_ = line->t_s > 0 ? line->produced - std::min(line->produced, ready) : 0;
      }
      lines_.back().produced -= before_;
      const std::uint64_t most = kMostBefore + kMostOfLine * lines_.size();
      if (lines_.back().produced > most) {
        refuse("produced is " + std::to_string(line->produced) + ", and a run of so few steps cannot have made " +
               std::to_string(most) + " batches");
      }
    }
    return std::move(lines_);
  }

 private:
  struct Source {
    std::string name;
    LineFile lines;

    [[nodiscard]] FileIdentity identity() const noexcept { return lines.identity(); }
  };

  static Source open(const fs::path& file) {
    try {
      return {.name = file.string(), .lines = LineFile(file, kLongestLine)};
    } catch (const Error& error) {
      throw Error(file.string() + " " + error.what() + ": is it the steps.RANK.jsonl of a run?");
    }
  }

  bool next(std::string& text) {
    while (true) {
      Source& source = files_.front();
      try {
        if (source.lines.next(text)) return true;
      } catch (const Error& error) {
        throw Error(source.name + " " + error.what());
      }
      if (files_.size() == 1) return false;
      files_.pop_front();
    }
  }

  [[nodiscard]] bool begins_anew(const Line& before, const Line& line) const {
    return line.produced < before.produced + before_ || line.t_s < before.t_s;
  }

  // Nothing for a last line without a newline: the run was killed while writing it.
  [[nodiscard]] std::optional<Line> line_in(const std::string& text) const {
    std::string cause;
    try {
      return parse(text);
    } catch (const nlohmann::json::exception& error) {
      cause = error.what();
    } catch (const Error& error) {
      cause = error.what();
    }
    if (!files_.front().lines.is_cut() || lines_.empty()) refuse("not a step of Forebay's telemetry: " + cause);
    return std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(files_.front().name + ":" + std::to_string(files_.front().lines.number()) + ": " + what);
  }

  std::deque<Source> files_;  // the first is being read
  std::vector<Line> lines_;
  std::optional<std::uint64_t> last_step_;
  std::uint64_t before_ = 0;  // batches produced before the first line that was kept (telemetry.max_bytes)
};

// The producer's own clock, which stops while the queue is full.
double own_time(const Line& line) { return line.t_s - line.blocked_s; }

// The work of each batch. When the batches between two steps became ready is unknown; they are
// spread evenly, with half a share before the first and after the last.
std::vector<double> work_of(const std::vector<Line>& lines) {
  // When the batches that were ready before the first step were made is unknown: they count as no
  // work.
  std::vector<double> work(lines.front().produced, 0.0);
  double last = own_time(lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::uint64_t batches = lines[i].produced - lines[i - 1].produced;
    const double from = own_time(lines[i - 1]);
    const double span = std::max(0.0, own_time(lines[i]) - from);
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      const double at = std::max(last, from + span * (static_cast<double>(batch) + 0.5) / static_cast<double>(batches));
      work.push_back(at - last);
      last = at;
    }
  }
  return work;
}

// The producer's own time in seconds, and the batches made in it, from the first step to the last
// one that found new batches. What was in production after that was not finished.
std::pair<double, std::uint64_t> production_of(const std::vector<Line>& lines) {
  if (lines.empty()) return {0, 0};
  const auto last = std::ranges::find(lines, lines.back().produced, &Line::produced);
  return {own_time(*last) - own_time(lines.front()), last->produced - lines.front().produced};
}

// The compute time of each step, which is recorded with the next step. If a batch was ready, the
// time spent in next() counts too: with short steps or on an overloaded machine, batches arrive
// during it.
std::vector<double> steps_of(const std::vector<Line>& lines) {
  std::vector<double> steps;
  steps.reserve(lines.size());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const double step = lines[i].step_s + (lines[i].depth > 0 ? lines[i].wait_s : 0);
    if (step > 0) steps.push_back(step);
  }
  return steps;
}

// The wait of the first step is start-up, not a stall.
void add_what_was_served(const std::vector<Line>& lines, Trace& trace) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> uses;
  for (const Line& line : lines) {
    trace.fresh += line.use_index == 0 ? 1 : 0;
    trace.most_depth = std::max(trace.most_depth, line.depth);
    ++uses[{line.epoch, line.batch}];
    if (&line != &lines.front()) trace.stall_s += line.wait_s;
  }
  UseTally tally;
  for (const auto& [batch, count] : uses) tally.left_pool(count);
  trace.steps = lines.size();
  trace.uses_p99 = tally.percentile(0.99);
  trace.uses_max = tally.max();
  trace.wall_s = lines.back().t_s;
}

// Throws unless both means are above 0, since ratios of them are computed.
Trace trace_of(const fs::path& file, std::uint64_t rank) {
  const std::vector<Line> lines = Reader(file).read();
  auto source = std::make_shared<SourceSpec>();
  source->kind = SourceKind::trace;
  Trace trace;
  trace.rank = rank;
  if (lines.size() >= 2) {
    source->work = work_of(lines);
    trace.step_s = steps_of(lines);
  }
  const auto [own, made] = production_of(lines);
  // A damaged file may have a clock that goes backwards, so the sum alone does not show that there
  // is work.
  const bool has_work = std::ranges::any_of(source->work, [](double seconds) { return seconds > 0; });
  if (made == 0 || own <= 0 || !has_work || trace.step_s.empty()) {
    throw Error(file.string() + " has too little in it: a trace needs steps during which batches became ready" +
                " (a longer run, with telemetry.per_step = true)");
  }
  trace.mean_work_s = own / static_cast<double>(made);
  source->mean_s = trace.mean_work_s;
  trace.source = std::move(source);
  double sum = 0;
  for (const double step : trace.step_s) sum += step;
  trace.mean_step_s = sum / static_cast<double>(trace.step_s.size());
  add_what_was_served(lines, trace);
  return trace;
}

// The files by rank. A path that is not a readable folder is treated as a file: opening it tells
// what is wrong.
std::map<std::uint64_t, fs::path> files_at(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {{rank_of(path).value_or(0), path}};
  std::map<std::uint64_t, fs::path> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (const auto rank = rank_of(it->path())) files.emplace(*rank, measure::rank_file(path.native(), "steps", *rank));
  }
  if (error) throw Error(path.string() + " cannot be listed: " + error.message());
  if (files.empty()) {
    throw Error(path.string() + " has no steps.RANK.jsonl: name the telemetry.dir of a run that had " +
                "telemetry.per_step = true");
  }
  return files;
}

// The grid and the limits are chosen: powers of two up to what memory usually allows; a stall of a
// thousandth is none; half a percent of fresh batches and a tenth of evenness count as equal.
constexpr std::array<std::int64_t, 6> kCapacities{4, 8, 16, 32, 64, 128};
constexpr std::array<std::int64_t, 6> kPools{1, 2, 4, 8, 12, 16};
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
  if (policy.on_max_uses == OnMaxUses::error) scenario.policy.on_max_uses = OnMaxUses::wait;  // predict, not fail
  return {.queue = queue, .policy = policy, .outcome = simulate(scenario, registry)};
}

// Predicts without a cap on uses and without waits, which would hide the effect of a policy;
// recommend() adds the automatic cap at the end.
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
      if (recorded.mpi.mode == MpiMode::lockstep && capacity <= recorded.mpi.lag) continue;  // not allowed
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
  // Batches still ready at the end are not lost: in a short recording, a reserve must not count as
  // waste. Nor are they a gain beyond one for each step: a queue that is always full serves no more.
  const auto fresh = [](const Prediction& prediction) { return static_cast<double>(prediction.outcome.could_serve); };
  const double most = fresh(std::ranges::max(predictions, {}, fresh));
  std::erase_if(predictions, [&](const Prediction& one) { return fresh(one) < kEnoughFresh * most; });
  const auto evenness = [](const Prediction& prediction) { return prediction.outcome.evenness; };
  const double best = std::ranges::min(predictions, {}, evenness).outcome.evenness;
  std::erase_if(predictions, [&](const Prediction& one) { return evenness(one) > kEvenEnough * best; });
  return std::ranges::min(predictions, {}, &Prediction::slots);  // the first of equals: the preferred policy
}

}  // namespace

std::vector<Trace> read_traces(const fs::path& path) {
  std::vector<Trace> traces;
  for (const auto& [rank, file] : files_at(path)) {
    try {
      traces.push_back(trace_of(file, rank));
    } catch (const std::bad_alloc&) {
      throw Error(file.string() + " needs more memory than there is");
    }
  }
  return traces;
}

// Step times are taken from the first rank, because ranks make every step together.
Scenario scenario_of(std::span<const Trace> traces) {
  Scenario scenario;
  scenario.ranks = traces.size();
  scenario.step_s = traces.front().step_s;
  scenario.steps = traces.front().steps;
  for (const Trace& trace : traces) scenario.sources.push_back(trace.source);
  return scenario;
}

Recommendation recommend(std::span<const Trace> traces, const Options& configured, const PolicyRegistry& registry) {
  Scenario recorded = scenario_of(traces);
  recorded.mpi = configured.mpi;
  Recommendation recommendation{
      .configured = predict(recorded, configured.queue, configured.policy, registry),
      .recommended = {},
      .uncapped = choose(predict_all(recorded, configured, registry)),
  };
  PolicyOptions policy = recommendation.uncapped.policy;
  policy.max_uses = kAutomatic;
  recommendation.recommended = predict(recorded, recommendation.uncapped.queue, policy, registry);
  return recommendation;
}

}  // namespace forebay::simulate

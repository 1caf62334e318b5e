#include "once_job.hpp"

#include <nlohmann/json.hpp>
#include <random>

#include "every_container.hpp"
#include "memory_dataset.hpp"

// Draws the random jobs of the exactly-once test, describes them, and checks the logs of those that
// record their steps.
namespace forebay::testing {
namespace {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t number) : engine_(seed * 1'000'003 + number) {}

  // A random number in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + engine_() % (high - low + 1); }
  bool chance(double share) { return static_cast<double>(engine_() >> 11U) * 0x1p-53 < share; }
  // In [low, high], with each order of magnitude equally likely.
  std::uint64_t magnitude(std::uint64_t low, std::uint64_t high) {
    const double unit = static_cast<double>(engine_() >> 11U) * 0x1p-53;
    const double drawn = std::exp(std::log(static_cast<double>(low)) +
                                  unit * std::log(static_cast<double>(high + 1) / static_cast<double>(low)));
    return std::clamp(static_cast<std::uint64_t>(drawn), low, high);
  }
  template <typename T, std::size_t N>
  const T& pick(const std::array<T, N>& from) {
    return from[between(0, N - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::array<std::uint64_t, 15> kPrimes{2,    3,    5,    7,    13,    61,    127,  509,
                                                1021, 2053, 4099, 8191, 16381, 32749, 49999};
constexpr std::array<std::int64_t, 10> kShards{1, 2, 3, 4, 7, 16, 64, 1000, 1024, 1024};
// The first exchange between ranks that do not run out of batches takes place from this step to a
// few steps later.
constexpr std::uint64_t kFirstExchange = 256;

std::uint64_t draw_samples(Dice& dice, const OnceLimits& limits, bool is_long) {
  const std::uint64_t least = is_long ? 300 : 1;
  for (;;) {
    std::uint64_t samples = 0;
    switch (dice.between(0, 3)) {
      case 0: samples = dice.pick(kPrimes); break;
      case 1: samples = std::uint64_t{1} << dice.between(0, 15); break;
      case 2: samples = dice.between(1, 40); break;
      default: samples = dice.magnitude(1, limits.samples); break;
    }
    if (samples >= least && samples <= limits.samples) return samples;
  }
}

std::string draw_policy(Dice& dice) {
  static constexpr std::array<const char*, 10> kPolicies{
      "greedy", "greedy", "greedy", "greedy", "adaptive", "adaptive", "proportional", "watermark", "interval", "block"};
  return dice.pick(kPolicies);
}

// Draws the options that may differ between the parts of a job.
void draw_how(Dice& dice, Options& options) {
  options.device = "host";  // the test reads the bytes, even if there is a GPU
  options.policy.name = draw_policy(dice);
  options.policy.interval = static_cast<std::int64_t>(dice.between(1, 3));
  options.policy.pick = dice.chance(0.5) ? Pick::current : Pick::least_used;
  options.policy.max_wait_ms = dice.chance(0.1) ? 0.5 : 0;
  options.policy.max_uses = dice.chance(0.1)   ? static_cast<std::int64_t>(dice.between(2, 8))
                            : dice.chance(0.5) ? kAutomatic
                                               : 0;
  options.policy.watchdog_s = 30;  // to report what hangs, even on a busy machine
  options.mpi.mode = dice.chance(0.3) ? MpiMode::lockstep : MpiMode::local;
  options.mpi.lag = static_cast<std::int64_t>(dice.between(1, 3));
  options.mpi.epoch_end = dice.chance(0.3) ? EpochEnd::reuse : EpochEnd::next;
  options.queue.capacity = static_cast<std::int64_t>(dice.between(1, 8));
  if (options.mpi.mode == MpiMode::lockstep) {
    options.queue.capacity = std::max(options.queue.capacity, options.mpi.lag + 1);
    options.policy.max_wait_ms = 0;
  }
  options.queue.pool = static_cast<std::int64_t>(dice.between(1, 4));
  options.workers.io = static_cast<std::int64_t>(dice.between(1, 3));
  options.workers.decode = static_cast<std::int64_t>(dice.between(1, 3));
}

// Draws which ranks are slow: time per batch of the reader and of the trainer. `most_us`: the most
// for a batch.
void draw_skew(Dice& dice, Part& part, double most_us, bool is_skewed) {
  const auto batch_size = static_cast<double>(part.options.dataset.batch_size);
  // A trainer that computes nothing spins on resident batches.
  part.step_us.assign(part.ranks, part.ranks > 1 && dice.chance(0.2) ? 0.0 : 50.0);
  part.read_us.assign(part.ranks, 0);
  if (part.ranks > 1 && dice.chance(0.2)) {
    part.step_us[dice.between(0, part.ranks - 1)] += static_cast<double>(dice.between(50, 200));
  }
  const std::uint64_t kind = is_skewed ? dice.between(1, 3) : dice.between(0, 3);
  const double slow = std::min(static_cast<double>(dice.magnitude(300, 6000)), most_us) / batch_size;
  const auto chosen = static_cast<std::uint32_t>(dice.between(0, part.ranks - 1));
  for (std::uint32_t rank = 0; rank < part.ranks; ++rank) {
    if (kind == 1) part.read_us[rank] = rank == chosen ? slow : slow / 20;
    if (kind == 2) part.read_us[rank] = slow * static_cast<double>(dice.between(0, 100)) / 100;
    if (kind == 3) part.read_us[rank] = rank == chosen ? slow / 40 : slow;  // all but one are slow
  }
}

void draw_stop(Dice& dice, Part& part, std::uint64_t about) {
  switch (dice.between(0, 9)) {
    case 0: part.steps = 0; break;
    case 1: part.steps = dice.between(1, 4); break;
    case 2: part.steps = about < kFirstExchange ? about : kFirstExchange + dice.between(0, 4); break;
    default: part.steps = dice.between(1, std::max<std::uint64_t>(about, 1)); break;
  }
  static constexpr std::array<StopBy, 5> kStops{StopBy::request, StopBy::request, StopBy::cease, StopBy::cease,
                                                StopBy::checkpoint};
  part.stop = dice.pick(kStops);
  if (part.stop == StopBy::checkpoint) part.lost_steps = dice.between(0, 60);
  part.stopper = static_cast<std::uint32_t>(dice.between(0, part.ranks - 1));
}

void draw_looks(Dice& dice, Part& part, std::uint64_t about) {
  for (std::uint64_t looks = dice.between(0, 2); looks > 0; --looks) part.looks.push_back(dice.between(0, about));
  if (about > kFirstExchange && dice.chance(0.3)) {
    for (std::uint64_t i = 0; i < 5; ++i) part.looks.push_back(kFirstExchange - 1 + i);
  }
  std::ranges::sort(part.looks);
  part.looks.erase(std::unique(part.looks.begin(), part.looks.end()), part.looks.end());
}

const char* name(StopBy stop) {
  static constexpr std::array<const char*, 4> kNames{"end", "request", "cease", "checkpoint"};
  return kNames[static_cast<std::size_t>(stop)];
}

const char* name(ResumeBy resume) {
  static constexpr std::array<const char*, 4> kNames{"Parts::resume", "restore", "restore_if_present", "restore_state"};
  return kNames[static_cast<std::size_t>(resume)];
}

void describe(std::ostringstream& out, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ",") << std::lround(values[i]);
}

}  // namespace

OnceCase draw_case(std::uint64_t seed, std::uint64_t number, const OnceLimits& limits) {
  Dice dice(seed, number);
  OnceCase job{.number = number, .samples = 0, .bad = {}, .parts = {}};
  // Hand-over needs a few hundred steps and a rank that lags; most other cases are short.
  const bool is_long = dice.chance(0.5);
  job.samples = draw_samples(dice, limits, is_long);

  Options options = memory_options(1);
  options.seed = dice.between(0, 1'000'000);
  options.dataset.shuffle = dice.chance(0.9);
  const std::uint64_t target = is_long ? dice.between(250, 1500) : dice.magnitude(1, 400);
  options.dataset.batch_size = static_cast<std::int64_t>(std::max<std::uint64_t>(1, job.samples / target));
  options.dataset.drop_last = dice.chance(0.5);
  options.mpi.virtual_shards = dice.pick(kShards);
  const auto batch_size = static_cast<std::uint64_t>(options.dataset.batch_size);
  const std::uint64_t batches = (job.samples + batch_size - 1) / batch_size;
  // If epochs are short, many may be open at the same time.
  const std::uint64_t many = batches <= 20 && dice.chance(0.3) ? 100 : 3;
  const auto most_epochs = std::clamp<std::uint64_t>(limits.served / job.samples, 1, many);
  options.run.epochs = static_cast<std::int64_t>(dice.between(1, most_epochs));
  if (dice.chance(0.08)) {
    options.run.steps = static_cast<std::int64_t>(dice.between(1, std::min<std::uint64_t>(2 * batches + 10, 900)));
  }
  if (job.samples >= 50 && dice.chance(0.15)) {
    for (std::uint64_t bad = dice.between(1, 5); bad > 0; --bad) job.bad.push_back(dice.between(0, job.samples - 1));
    std::ranges::sort(job.bad);
  }

  const std::uint64_t parts = 1 + dice.between(is_long ? 0 : 1, 3);
  std::uint32_t ranks = 0;
  for (std::uint64_t i = 0; i < parts; ++i) {
    Part part;
    if (i == 0 || dice.chance(0.6)) {
      ranks = static_cast<std::uint32_t>(
          dice.between(limits.world > 1 && is_long && dice.chance(0.8) ? 2 : 1, limits.world));
      ranks = std::min(ranks, static_cast<std::uint32_t>(options.mpi.virtual_shards));
    }
    part.ranks = ranks;
    part.first = static_cast<std::uint32_t>(dice.between(0, limits.world - 1));
    part.without_mpi = ranks == 1 && dice.chance(0.5);
    part.holds_last = dice.chance(0.2);
    part.resume = static_cast<ResumeBy>(dice.between(0, 3));
    // A resumed run may be given more epochs, or fewer.
    if (i > 0 && dice.chance(0.1)) options.run.epochs = static_cast<std::int64_t>(dice.between(1, most_epochs + 1));
    draw_how(dice, options);
    if (is_long && dice.chance(0.6)) {
      options.mpi.mode = MpiMode::local;
      options.policy.name = "greedy";
    }
    part.options = options;
    const auto epochs = static_cast<std::uint64_t>(options.run.epochs);
    const double own = std::max(1.0, static_cast<double>(batches * epochs) / ranks);
    draw_skew(dice, part, limits.sleep_ms * 1000 / own, is_long);
    const std::uint64_t about = batches * epochs / ranks * 3 / (2 * parts) + 2;
    // The last part mostly runs to the end; if not, its state shows whether anything is lost.
    if (i + 1 < parts || dice.chance(0.15)) draw_stop(dice, part, about);
    draw_looks(dice, part, part.stop == StopBy::end ? about : part.steps);
    part.by_epochs = Dice(seed + 1, number * 8 + i).chance(0.4);
    part.is_logged = Dice(seed + 2, number * 8 + i).chance(0.5);
    job.parts.push_back(std::move(part));
  }
  return job;
}

OnceCase in_windows(OnceCase job) {
  Dice dice(job.number, job.samples);
  const auto window = static_cast<std::int64_t>(dice.magnitude(1, 2 * job.samples));
  const auto run = static_cast<std::int64_t>(dice.magnitude(1, 64));
  for (Part& part : job.parts) {
    part.options.dataset.order = SampleOrder::shards;
    part.options.dataset.window = window;
    part.options.dataset.run = run;
  }
  return job;
}

OnceCase in_parts(OnceCase job) {
  Dice dice(job.number, job.samples + 2);
  const auto nodes = static_cast<std::int64_t>(dice.between(1, 5));
  const double exchange = dice.pick(std::array{0.0, 0.0, 0.1, 1.0});
  for (Part& part : job.parts) {
    part.options.dataset.order = SampleOrder::local;
    part.options.dataset.nodes = nodes;
    part.options.dataset.exchange = part.options.dataset.shuffle ? exchange : 0;
  }
  return job;
}

OnceCase in_container(OnceCase job) {
  if (job.samples > kMostInContainer) return job;
  Dice dice(job.number, job.samples + 1);
  const std::vector<ContainerKind>& kinds = every_container();
  const ContainerKind& kind = kinds[dice.between(0, kinds.size() - 1)];
  job.container = kind.name;
  if (!kind.has_encoded_images) job.bad.clear();  // raw pixels cannot be bad
  constexpr std::array<std::int64_t, 4> kBytes{1, 5'000, 100'000, std::int64_t{64} << 20U};
  for (Part& part : job.parts) {
    part.options.transform.size = {1, 1};
    part.options.workers.bytes = dice.pick(kBytes);
    if (dice.chance(0.2)) part.options.workers.hedge = Hedge::automatic;
    add_fields(part.options, kind);
  }
  return job;
}

OnceCase in_store(OnceCase job, const std::string& url) {
  static constexpr std::array<std::string_view, 3> kFilesOnly{"lmdb", "cifar", "idx"};
  if (job.container.empty() || std::ranges::find(kFilesOnly, job.container) != kFilesOnly.end() ||
      job.samples > kMostInStore)
    return job;
  Dice dice(job.number, job.samples + 3);
  job.store = url;
  job.has_cache = dice.chance(0.5);
  constexpr std::array<std::int64_t, 3> kBytes{0, 20'000, 60'000};
  for (Part& part : job.parts) part.options.cache.bytes = dice.pick(kBytes);
  return job;
}

OnceCase in_some_way(OnceCase job, const std::string& store) {
  Dice dice(job.number, 17);
  if (dice.chance(0.5)) job = dice.chance(0.5) ? in_windows(std::move(job)) : in_parts(std::move(job));
  if (dice.chance(store.empty() ? 0.5 : 0.9)) job = in_container(std::move(job));
  return store.empty() || dice.chance(0.25) ? job : in_store(std::move(job), store);
}

OnceCase large_state_case(std::uint64_t number, const OnceLimits& limits) {
  OnceCase job{.number = number, .samples = 40'960, .bad = {}, .parts = {}};
  Part part;
  part.ranks = limits.world;
  part.stop = StopBy::cease;
  part.steps = 1100;
  part.looks = {300, 500, 700, 900};
  part.step_us.assign(part.ranks, 50);
  part.read_us.assign(part.ranks, 20'000);
  part.read_us[0] = 0;
  part.options = memory_options(1);
  part.options.run.epochs = 20'000;
  part.options.mpi.virtual_shards = 1024;
  part.options.mpi.lag = 2;
  part.options.policy.name = "greedy";
  job.parts.push_back(part);
  part.steps = 600;
  part.looks = {0, 400};
  job.parts.push_back(part);
  return job;
}

std::string describe(const OnceCase& job) {
  std::ostringstream out;
  const Options& all = job.parts.front().options;
  out << "samples " << job.samples << ", batch " << all.dataset.batch_size
      << (all.dataset.drop_last ? ", drop_last" : "") << (all.dataset.shuffle ? "" : ", in order");
  if (all.dataset.order == SampleOrder::shards) {
    out << ", windows of " << all.dataset.window << " in runs of " << all.dataset.run;
  }
  if (all.dataset.order == SampleOrder::local) {
    out << ", in " << all.dataset.nodes << " parts that exchange " << all.dataset.exchange;
  }
  if (!job.container.empty()) out << ", " << job.container;
  if (!job.store.empty()) out << (job.has_cache ? " in a store, with a cache" : " in a store");
  out << ", shards " << all.mpi.virtual_shards << ", seed " << all.seed << ", bad " << job.bad.size();
  for (const Part& part : job.parts) {
    const Options& options = part.options;
    out << "; ";
    if (&part != &job.parts.front()) out << name(part.resume) << " on ";
    out << part.ranks
        << (part.without_mpi  ? " rank without MPI"
            : part.ranks == 1 ? " rank"
                              : " ranks")
        << " from " << part.first << ", " << (options.mpi.mode == MpiMode::local ? "local" : "lockstep") << ", "
        << options.policy.name << (part.by_epochs ? ", by epochs" : "")
        << (part.holds_last ? ", holds the last lease" : "") << (part.is_logged ? ", logged" : "") << ", epoch_end "
        << (options.mpi.epoch_end == EpochEnd::next ? "next" : "reuse") << ", ";
    if (options.run.steps > 0) {
      out << options.run.steps << " steps";
    } else {
      out << options.run.epochs << " epochs";
    }
    if (options.policy.max_uses > 0) out << ", max_uses " << options.policy.max_uses;
    out << ", capacity " << options.queue.capacity << ", pool " << options.queue.pool << ", lag " << options.mpi.lag
        << ", cache " << options.cache.bytes << ", bytes " << options.workers.bytes << ", io " << options.workers.io
        << ", decode " << options.workers.decode << ", read us ";
    describe(out, part.read_us);
    out << ", step us ";
    describe(out, part.step_us);
    out << ", " << name(part.stop);
    if (part.stop != StopBy::end) out << " at " << part.steps;
    if (part.stop == StopBy::request) out << " by rank " << part.stopper;
    if (part.stop == StopBy::checkpoint) out << " +" << part.lost_steps;
  }
  return out.str();
}

namespace {

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// For each step, whether a recording's run lengths, which alternate and begin with `value`, make it
// true.
std::vector<bool> steps_of(const nlohmann::json& runs, bool value) {
  std::vector<bool> steps;
  for (const nlohmann::json& run : runs) {
    steps.insert(steps.end(), run.get<std::size_t>(), value);
    value = !value;
  }
  return steps;
}

// For each step: the decision, and whether padding was served.
struct RecordedSteps {
  std::vector<bool> fresh;
  std::vector<bool> padded;
};

RecordedSteps recorded_in(const std::filesystem::path& file) {
  RecordedSteps recorded;
  for (const nlohmann::json& line : lines_of(file)) {
    if (!line.contains("runs")) continue;  // the header line
    const std::vector<bool> fresh = steps_of(line.at("runs"), true);
    recorded.fresh.insert(recorded.fresh.end(), fresh.begin(), fresh.end());
    const std::vector<bool> padded = steps_of(line.value("padded", nlohmann::json::array()), false);
    recorded.padded.insert(recorded.padded.end(), padded.begin(), padded.end());
    recorded.padded.resize(recorded.fresh.size());
  }
  return recorded;
}

}  // namespace

std::vector<std::string> check_logs(const std::filesystem::path& folder, std::uint32_t rank, std::uint64_t first_step,
                                    Seen& seen) {
  const std::string name = std::to_string(rank);
  const auto lines = lines_of(folder / ("steps." + name + ".jsonl"));
  if (lines.size() != seen.steps.size()) return {};  // records are lost if the disk is too slow
  seen.is_logged = 1;
  std::vector<std::string> wrong;
  for (std::size_t step = 0; step < lines.size(); ++step) {
    StepSeen& mine = seen.steps[step];
    mine.is_padding = lines[step].at("padding").get<bool>() ? 1 : 0;
    const bool is_fresh = lines[step].at("decision") == "fresh" && mine.is_padding == 0;
    if (lines[step].at("use_index") != mine.use_index || is_fresh != (mine.use_index == 0)) {
      wrong.push_back("the line of step " + std::to_string(step) + " says " + lines[step].dump());
    }
  }
  const std::string from = first_step > 0 ? ".from-" + std::to_string(first_step) : "";
  const RecordedSteps recorded = recorded_in(folder / ("decisions." + name + from + ".jsonl"));
  if (recorded.fresh.size() != seen.steps.size()) {
    wrong.push_back(std::to_string(recorded.fresh.size()) + " of " + std::to_string(seen.steps.size()) +
                    " decisions are recorded");
    return wrong;
  }
  for (std::size_t step = 0; step < seen.steps.size(); ++step) {
    const bool is_fresh = recorded.fresh[step] && !recorded.padded[step];
    const StepSeen& mine = seen.steps[step];
    if (recorded.padded[step] == (mine.is_padding != 0) && is_fresh == (mine.use_index == 0)) continue;
    wrong.push_back("step " + std::to_string(step) + " is recorded as " + (recorded.fresh[step] ? "fresh" : "a reuse") +
                    (recorded.padded[step] ? ", padded" : "") + " and was use " + std::to_string(mine.use_index));
    break;
  }
  return wrong;
}

}  // namespace forebay::testing

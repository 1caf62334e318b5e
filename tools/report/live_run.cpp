// What a run is doing now, for `forebay top`, from the last lines of its telemetry files. Each look
// reads the ends of every rank's files again. Only their sizes are remembered, to tell how long a
// rank has been silent.
//
// The run may be writing at the same moment: a line without an end is ignored, and a file that
// disappears counts as empty. Nothing here throws because of what a run does to its files.

#include "live_run.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "measure/bounded_lines.hpp"
#include "measure/figures.hpp"
#include "measure/run_files.hpp"
#include "measure/run_log.hpp"
#include "record_lines.hpp"
#include "run_data.hpp"

namespace forebay::report {
namespace {

namespace fs = std::filesystem;

// Seconds of steps that are added up, and how many bytes at the end of a file are read for them: a
// few dozen steps of each rank, or a few hundred if there are few ranks. All chosen.
constexpr double kLatelyLive_s = 5;
constexpr std::size_t kTail = std::size_t{128} << 10;
constexpr std::size_t kTailOfMany = std::size_t{16} << 10;
constexpr std::size_t kManyRanks = 64;

// The last bytes of a file, or of an earlier and a latest file together, and their total size.
// Empty if they cannot be read.
struct Tail {
  std::string text;
  std::uint64_t size = 0;

  void add(const OpenFile& file, std::size_t most) {
    const std::size_t before = text.size();
    text.resize(before + std::min(file.size, most));
    const auto added = std::span(text).subspan(before);
    read_at(file.descriptor, file.size - added.size(), std::as_writable_bytes(added));
    size += file.size;
  }
};

// open_regular() does not block if the name is a FIFO.
OpenFile open_to_read(const fs::path& file) { return open_regular(file.native()); }

Tail tail_of_one(const fs::path& file, std::size_t most) {
  Tail tail;
  try {
    if (!file.empty()) tail.add(open_to_read(file), most);
    return tail;
  } catch (const Error&) {
    return {};
  }
}

// The tail of a file, continued into the file with the lines before it.
Tail tail_of_both(const fs::path& file, std::size_t most) {
  Tail tail;
  if (file.empty()) return tail;
  try {
    const auto files = measure::open_bounded<OpenFile>(file, open_to_read);
    // Read from the earlier file only if the latest is read whole: otherwise the text would have a
    // gap.
    const std::size_t of_latest = files.latest ? std::min(files.latest->size, most) : 0;
    if (files.earlier) tail.add(*files.earlier, most - of_latest);
    if (files.latest) tail.add(*files.latest, of_latest);
    return tail;
  } catch (const Error&) {
    return {};
  }
}

// Removes the last line from `text` and returns it; nothing if there is no complete one.
std::optional<std::string_view> last_line(std::string_view& text) {
  const std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t before = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view line = text.substr(begin, end - begin);
  text = text.substr(0, begin);
  return line;
}

constexpr std::array<std::string_view, 9> kLiveSteps{"step",  "t_s",    "epoch",         "use_index", "decision",
                                                     "depth", "wait_s", "census_wait_s", "step_s"};
constexpr std::array<std::string_view, 12> kLiveIntervals{
    "t_s",   "interval_s", "step_num",      "epoch",        "queue_size", "capacity",
    "steps", "fresh",      "census_wait_s", "job_uses_max", "stall",      "mean_running_time"};

// Lines written by older versions lack these.
constexpr std::array<std::string_view, 2> kCacheFigures{"bytes_from_store", "bytes_from_cache"};

// Reads steps from the last line backwards.
void add_steps(std::string_view text, RankNow& now) {
  static const LineReader<measure::StepRecord> reader(measure::step_figures(), kLiveSteps);
  std::optional<double> last_s;
  double first_s = 0;
  measure::StepRecord step;
  while (const auto line = last_line(text)) {
    if (!reader.read(*line, step).empty()) continue;
    if (!last_s) {
      now.step = step.step;
      now.epoch = step.epoch;
      now.depth = step.depth;
      last_s = first_s = step.t_s;
    }
    if (step.t_s > first_s || *last_s - step.t_s > kLatelyLive_s) break;  // before a resume, or too long ago
    first_s = step.t_s;
    const bool is_first = step.t_s == 0;  // its wait is the start-up
    now.lately.add({.steps = 1,
                    .fresh = step.served == Decision::fresh ? 1.0 : 0.0,
                    .wait_s = is_first ? 0 : step.wait_s,
                    .compute_s = step.step_s,
                    .census_s = is_first ? 0 : step.census_wait_s,
                    .uses_most = static_cast<double>(step.use_index + 1)});
  }
  now.lately_s = last_s ? *last_s - first_s : 0;
}

// Reads the last interval only: an interval is a sum already.
void add_intervals(std::string_view text, RankNow& now) {
  static const LineReader<measure::Interval> reader(measure::interval_figures(), kLiveIntervals);
  static const LineReader<measure::Interval> cache_reader(measure::interval_figures(), kCacheFigures);
  measure::Interval interval;
  while (const auto line = last_line(text)) {
    if (!reader.read(*line, interval).empty()) continue;
    if (cache_reader.read(*line, interval).empty()) {
      now.from_store = static_cast<double>(interval.bytes_from_store);
      now.from_cache = static_cast<double>(interval.bytes_from_cache);
    }
    now.step = interval.step_num;
    now.epoch = interval.epoch;
    now.depth = interval.queue_size;
    now.capacity = interval.capacity;
    const double timed_s = interval.mean_running_time.value_or(0) * static_cast<double>(interval.steps);
    const double wait_s = timed_s * interval.stall.value_or(0);
    now.lately = {.steps = static_cast<double>(interval.steps),
                  .fresh = static_cast<double>(interval.fresh),
                  .wait_s = wait_s,
                  .compute_s = timed_s - wait_s,
                  .census_s = interval.census_wait_s,
                  .uses_most = static_cast<double>(interval.job_uses_max)};
    now.lately_s = interval.interval_s;
    return;
  }
}

struct LiveFiles {
  fs::path run;
  fs::path steps;  // or the name it would have, if only the earlier file exists
  fs::path intervals;
};

std::map<std::uint32_t, LiveFiles> live_files(const fs::path& folder) {
  std::map<std::uint32_t, LiveFiles> ranks;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string text = it->path().filename().string();
    const std::optional<measure::RankFileName> name = measure::rank_file_name(text);
    if (!name) continue;
    LiveFiles& rank = ranks[name->rank];
    if (name->kind == "run") rank.run = it->path();
    if (name->kind == "steps") rank.steps = measure::rank_file(folder.native(), name->kind, name->rank);
    if (name->kind == "intervals") rank.intervals = measure::rank_file(folder.native(), name->kind, name->rank);
  }
  return ranks;
}

// run.RANK.jsonl gets this last line when the run ends, unless it is killed.
void look_for_the_end(const fs::path& log, RankNow& rank) {
  const Tail tail = tail_of_one(log, kTailOfMany);
  std::string_view text = tail.text;
  const auto line = last_line(text);
  rank.has_ended = line && line->starts_with(R"({"forebay":"end")");
  rank.has_failed = line && line->starts_with(R"({"forebay":"end","failed")");
}

}  // namespace

LiveRun::LiveRun(fs::path folder) : folder_(std::move(folder)) { require_run_folder(folder_); }

// Steps are preferred to intervals if both are written, because they say more.
void LiveRun::look(double now_s) {
  ranks_.clear();
  const auto files = live_files(folder_);
  const std::size_t most = files.size() > kManyRanks ? kTailOfMany : kTail;
  for (const auto& [rank, of_rank] : files) {
    RankNow now{.rank = rank};
    const Tail steps = tail_of_both(of_rank.steps, most);
    const Tail intervals = tail_of_both(of_rank.intervals, kTailOfMany);
    add_intervals(intervals.text, now);
    if (!steps.text.empty()) {
      now.lately = {};
      add_steps(steps.text, now);
    }
    Seen& seen = seen_[rank];
    const std::uint64_t bytes = steps.size + intervals.size;
    if (bytes != seen.bytes) seen = {.bytes = bytes, .grown_s = now_s};
    now.silent_s = now_s - seen.grown_s;
    look_for_the_end(of_rank.run, now);
    if (rank == 0) read_head(of_rank.run);
    now.capacity = std::max({now.capacity, capacity_, now.depth});
    ranks_.push_back(now);
  }
}

void LiveRun::read_head(const fs::path& log) {
  try {
    LineFile lines(log, std::size_t{1} << 20);
    for (std::string line; lines.next(line);) {
      const auto said = measure::parse_run_line(line);
      if (!said.head) continue;
      expected_ = said.head->ranks;
      for (const auto& [key, value] : said.head->settings) {
        if (key == "policy.name") policy_ = value.size() > 2 ? value.substr(1, value.size() - 2) : value;
        if (key == "queue.capacity") capacity_ = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
      }
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what is known of the job is not needed
  }
}

bool LiveRun::has_ended() const noexcept { return !ranks_.empty() && std::ranges::all_of(ranks_, &RankNow::has_ended); }

}  // namespace forebay::report

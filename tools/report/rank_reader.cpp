// Reads the telemetry of one rank into time bins: its log (run.RANK.jsonl), and either steps or
// intervals.
//
// Several ranks are read at once, each by one thread. Files may have gigabytes, so of each line
// only the members that a report needs are parsed (record_lines.cpp). A line cut short by a killed
// process or a full disk is noted and skipped. Any other bad line is an error that says where it
// is, because figures from a damaged file would mislead.

#include "rank_reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "measure/bounded_lines.hpp"
#include "measure/figures.hpp"
#include "record_lines.hpp"

namespace forebay::report {

// The lines of a telemetry file. If the file is larger than the budget, only evenly spread
// stretches of kStretch bytes are read, each from its first complete line to its last.
//
// A run of a week has gigabytes of steps. Shares over time can be estimated from a sample, and the
// report says that it did so.

namespace {

// Far longer than any line of telemetry.
constexpr std::size_t kLongestTelemetryLine = std::size_t{1} << 20;
// Chosen: room for about a dozen steps.
constexpr std::size_t kStretch = std::size_t{4} << 10;

}  // namespace

LineSource::LineSource(std::filesystem::path file, std::uint64_t budget) : file_(std::move(file)) {
  try {
    open_ = open_regular(file_.native());
    if (open_.size <= std::max<std::uint64_t>(budget, 2 * kStretch)) {
      whole_.emplace(std::move(open_.descriptor), kLongestTelemetryLine);
      return;
    }
    stretches_ = std::max<std::uint64_t>(1, budget / kStretch);
    text_.resize(kStretch);
    at_ = text_.size();
  } catch (const Error& error) {
    throw Error(printable(file_.native()) + " " + error.what());
  }
}

bool LineSource::next(std::string_view& line) {
  try {
    if (whole_) {
      if (!whole_->next(line_)) return false;
      line = line_;
      return true;
    }
    while (true) {
      const char* const from = text_.data() + at_;
      const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', text_.size() - at_));
      if (newline == nullptr) {
        if (!next_stretch()) return false;
        continue;
      }
      line = {from, static_cast<std::size_t>(newline - from)};
      line_at_ = at_;
      at_ += line.size() + 1;
      return true;
    }
  } catch (const Error& error) {
    throw Error(printable(file_.native()) + " " + error.what());
  }
}

// A stretch starts with its first complete line. The first stretch starts at byte 0, and the last
// ends at the end of the file.
bool LineSource::next_stretch() {
  if (stretch_ == stretches_) return false;
  const std::uint64_t last = open_.size - text_.size();
  begin_ = stretches_ == 1 ? 0 : last / (stretches_ - 1) * stretch_;
  ++stretch_;
  read_at(open_.descriptor, begin_, std::as_writable_bytes(std::span(text_)));
  const auto* const newline = static_cast<const char*>(std::memchr(text_.data(), '\n', text_.size()));
  at_ = begin_ == 0 ? 0 : newline == nullptr ? text_.size() : static_cast<std::size_t>(newline - text_.data()) + 1;
  return true;
}

std::string LineSource::place() const {
  const std::string name = printable(file_.native());
  return whole_ ? name + ":" + std::to_string(whole_->number())
                : name + ": the line at byte " + std::to_string(begin_ + line_at_);
}

namespace {

constexpr std::array<std::string_view, 9> kOfSteps{"step",   "t_s",           "use_index", "decision", "depth",
                                                   "wait_s", "census_wait_s", "step_s",    "produced"};
constexpr std::array<std::string_view, 12> kOfIntervals{
    "t_s",   "interval_s", "step_num",        "queue_size", "capacity",      "mean_running_time",
    "steps", "fresh",      "exhausted_steps", "stall",      "census_wait_s", "job_uses_max"};

// Whether a killed process or a full disk cut the line short, and another process appended to it
// later.
bool is_cut_short(std::string_view line) { return line.starts_with("{\"") && !line.ends_with('}'); }

// Adds one rank's records to its data. A step's wait and compute time are spread over the bins in
// which they were spent; counts go to the bin in which the step was served.
class Adder {
 public:
  explicit Adder(RankData& data) : data_(data) {}

  void add(const measure::StepRecord& step) {
    const bool is_first = begin(step.t_s);
    const double t_s = offset_s_ + step.t_s;
    data_.last_step = std::max(data_.last_step, step.step);
    data_.capacity = std::max(data_.capacity, step.depth);
    data_.bins.add(t_s, {.steps = 1,
                         .fresh = step.served == Decision::fresh ? 1.0 : 0.0,
                         .depths = 1,
                         .depth_sum = static_cast<double>(step.depth),
                         .uses_most = static_cast<double>(step.use_index + 1)});
    if (is_first) return;  // the first wait is start-up, not a stall
    const double asked_s = std::max(0.0, t_s - step.wait_s);
    data_.bins.add(asked_s, t_s, {.wait_s = step.wait_s, .census_s = step.census_wait_s});
    data_.bins.add(std::max(0.0, asked_s - step.step_s), asked_s, {.compute_s = step.step_s});
  }

  void add(const measure::Interval& interval) {
    begin(interval.t_s);
    const double t_s = offset_s_ + interval.t_s;
    data_.last_step = std::max(data_.last_step, interval.step_num);
    data_.capacity = std::max(data_.capacity, interval.capacity);
    const double timed_s = interval.mean_running_time.value_or(0) * static_cast<double>(interval.steps);
    const double wait_s = timed_s * interval.stall.value_or(0);
    data_.bins.add(std::max(0.0, t_s - interval.interval_s), t_s,
                   {.steps = static_cast<double>(interval.steps),
                    .fresh = static_cast<double>(interval.fresh),
                    .wait_s = wait_s,
                    .compute_s = timed_s - wait_s,
                    .census_s = interval.census_wait_s,
                    .depths = 1,
                    .depth_sum = static_cast<double>(interval.queue_size),
                    .uses_most = static_cast<double>(interval.job_uses_max)});
  }

 private:
  // Whether the record is the first of a part of the run. A resumed run appends to its files and
  // restarts its clock at 0; the times of its parts are added up, so that one follows the other.
  bool begin(double t_s) {
    if (t_s < 0) throw Error("\"t_s\" is below 0");
    const bool is_first = !has_any_ || t_s < last_s_;
    if (has_any_ && is_first) offset_s_ += last_s_;
    has_any_ = true;
    last_s_ = t_s;
    data_.end_s = offset_s_ + t_s;
    return is_first;
  }

  RankData& data_;
  bool has_any_ = false;
  double last_s_ = 0;
  double offset_s_ = 0;
};

std::uint64_t steps_before(const measure::StepRecord& step) { return step.step; }
// step_num is the interval's last step.
std::uint64_t steps_before(const measure::Interval& interval) {
  return interval.step_num + 1 - std::min(interval.steps, interval.step_num + 1);
}

template <typename Record>
void read_lines(LineSource& lines, const LineReader<Record>& reader, Adder& adder, RankData& data) {
  data.stretches += lines.stretches();
  Record record;
  for (std::string_view line; lines.next(line);) {
    std::string problem = reader.read(line, record);
    if (!problem.empty() && lines.is_cut()) return;
    if (!problem.empty() && is_cut_short(line)) {
      if (data.cut.empty()) data.cut = lines.place();
      continue;
    }
    try {
      if (problem.empty() && !data.first_step) data.first_step = steps_before(record);
      if (problem.empty()) adder.add(record);
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!problem.empty()) {
      throw Error(lines.place() + ": not a line of Forebay's telemetry: " + problem +
                  "; restore the file, or remove that line to leave it out");
    }
  }
}

// 0 if it is not there.
std::uint64_t size_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  return error ? 0 : size;
}

// If both files together exceed the budget, it is halved between the earlier and the latest one.
template <typename Record>
void read_records(const std::filesystem::path& file, std::uint64_t budget, const LineReader<Record>& reader,
                  RankData& data) {
  if (file.empty()) return;
  const std::filesystem::path earlier = measure::earlier_file(file);
  const std::uint64_t size_before = size_of(earlier);
  const bool fits = size_before + size_of(file) <= budget;
  const std::uint64_t share = fits ? UINT64_MAX : size_before > 0 ? budget / 2 : budget;
  auto lines = measure::open_bounded<LineSource>(file, [&](const auto& path) { return LineSource(path, share); });
  std::error_code error;
  data.has_earlier = std::filesystem::exists(earlier, error);
  Adder adder(data);
  if (lines.earlier) read_lines(*lines.earlier, reader, adder, data);
  if (lines.latest) read_lines(*lines.latest, reader, adder, data);
}

// Each part of a run has a head and, if it ended properly, an end. Summary and profile are those of
// the last part.
void read_log(const std::filesystem::path& file, RankData& data) {
  LineSource lines(file, UINT64_MAX);
  for (std::string_view line; lines.next(line);) {
    try {
      measure::RunLine said = measure::parse_run_line(std::string(line));
      data.has_ended = !said.head;
      if (said.head) {
        if (!data.head) data.begun_at = said.head->first_step;
        data.head = std::move(said.head);
        data.summary.reset();
        data.profile.reset();
        data.foreign.clear();
        data.failure.clear();
        ++data.parts;
      } else {
        data.summary = said.end.summary;
        data.profile = said.end.profile;
        data.failure = said.end.failure;
        data.foreign = said.end.is_foreign ? lines.place() : "";
      }
    } catch (const Error& error) {
      if (lines.is_cut()) return;
      if (!is_cut_short(line)) throw Error(lines.place() + ": " + error.what());
      if (data.cut.empty()) data.cut = lines.place();
    }
  }
}

}  // namespace

RankData read_rank(const RankFiles& files, RecordKind kind, std::uint64_t budget) {
  static const LineReader<measure::StepRecord> of_steps(measure::step_figures(), kOfSteps);
  static const LineReader<measure::Interval> of_intervals(measure::interval_figures(), kOfIntervals);
  RankData data;
  data.rank = files.rank;
  if (!files.run.empty()) read_log(files.run, data);
  if (kind == RecordKind::steps) read_records(files.steps, budget, of_steps, data);
  if (kind == RecordKind::intervals) read_records(files.intervals, budget, of_intervals, data);
  return data;
}

}  // namespace forebay::report

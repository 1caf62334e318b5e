// A recording of decisions: one file per rank. Its first line describes the run. Then follows a
// line about every second, with the lengths of runs of fresh and reused steps, and of padded steps
// if there are any. DecisionLog writes it on the telemetry thread. It ends, with one warning, at
// the first step that could not be written, because a recording with a gap cannot be repeated.
// read_recording() reads it for a replay and refuses damage; a last line that was cut short, as by
// a kill, is ignored.

#include "recording.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include <nlohmann/json.hpp>

#include "base/file_io.hpp"
#include "base/json_numbers.hpp"
#include "base/text.hpp"
#include "run_files.hpp"

namespace forebay::measure {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kKind = "decisions";
constexpr std::uint64_t kVersion = 3;
// A line holds about a second, or 16,384 runs; more than this is damage.
constexpr std::uint64_t kMostStepsOfLine = std::uint64_t{1} << 30;
// 16,384 runs of 20 digits and a comma take a third of a megabyte; this leaves room.
constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr std::size_t kDeepest = 8;

// The line as a JSON object; none if it is not one.
std::optional<Json> parsed(const std::string& line) {
  if (json_depth(line) > kDeepest) return std::nullopt;
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

struct Decisions {
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> runs;
  std::vector<std::uint64_t> padded;
};

// Fills `runs` and returns their sum; none if they are not lengths of runs. The sum is bounded
// while it is computed, so it cannot overflow.
std::optional<std::uint64_t> runs_in(const Json& json, std::vector<std::uint64_t>& runs) {
  if (!json.is_array()) return std::nullopt;
  std::uint64_t steps = 0;
  for (const Json& run : json) {
    if (!run.is_number_unsigned() || run.get<std::uint64_t>() > kMostStepsOfLine - steps) return std::nullopt;
    runs.push_back(run.get<std::uint64_t>());
    steps += runs.back();
  }
  return steps;
}

// The contents of a line of decisions; none if it is not one.
std::optional<Decisions> decisions_in(const std::string& line) {
  const std::optional<Json> json = parsed(line);
  if (!json) return std::nullopt;
  const auto step = json->find("step");
  const auto runs = json->find("runs");
  if (step == json->end() || !step->is_number_unsigned() || runs == json->end()) return std::nullopt;
  Decisions out{.step = step->get<std::uint64_t>(), .steps = 0, .runs = {}, .padded = {}};
  const auto steps = runs_in(*runs, out.runs);
  if (!steps) return std::nullopt;
  out.steps = *steps;
  const auto padded = json->find("padded");
  if (padded != json->end() && runs_in(*padded, out.padded) != steps) return std::nullopt;
  return out;
}

// Appends runs that alternate, beginning with `value`.
void append_runs(DecisionRuns& to, std::span<const std::uint64_t> runs, bool value) {
  for (const std::uint64_t run : runs) {
    to.append(run, value);
    value = !value;
  }
}

// Adds one step. With an odd number of runs, the last run is of the first kind.
void extend(std::vector<std::uint64_t>& runs, bool is_first_kind) {
  if (runs.empty()) runs.push_back(0);
  if (is_first_kind == (runs.size() % 2 == 1)) {
    ++runs.back();
  } else {
    runs.push_back(1);
  }
}

void append_text(std::string& line, std::span<const std::uint64_t> runs) { line += joined(runs, ","); }

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : name_(printable(file.native())) {
    try {
      lines_.emplace(file, kLongestLine);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  Recording read() {
    Recording out;
    std::string line;
    if (!next(line)) refuse("is empty: the recorded run ended before its first step");
    out.header = header_in(line);
    for (bool more = next(line); more;) {
      const std::uint64_t number = lines_->number();
      const std::optional<Decisions> decisions = decisions_in(line);
      std::string following;
      more = next(following);
      if (!decisions && !more) break;  // the run was killed while it wrote this line, or the disk was full
      if (!decisions)
        refuse("is not a line of decisions; the file was damaged, and what follows cannot be used", number);
      append(out, *decisions, number);
      line.swap(following);
    }
    if (out.fresh.empty()) refuse("holds no steps: the recorded run ended before the first was written");
    return out;
  }

 private:
  // Adds the file's name to errors of reading.
  bool next(std::string& line) {
    try {
      return lines_->next(line);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  [[nodiscard]] RecordingHeader header_in(const std::string& line) const {
    const std::optional<Json> json = parsed(line);
    try {
      if (!json || json->at("forebay") != kKind) refuse("is not the head of a recording of decisions", 1);
      if (const Json& version = json->at("version"); version != kVersion) {
        refuse("is of version " + version.dump() + ", and this Forebay reads version " + std::to_string(kVersion) +
                   ": replay it with the Forebay that recorded it, or record again",
               1);
      }
      RecordingHeader out;
      out.rank = whole_number<std::uint32_t>(*json, "rank");
      out.ranks = whole_number<std::uint32_t>(*json, "ranks");
      if (json->contains("first_step")) out.first_step = whole_number<std::uint64_t>(*json, "first_step");
      json->at("dataset").get_to(out.dataset);
      json->at("settings").get_to(out.settings);
      json->at("policy").get_to(out.policy);
      out.capacity = whole_number<decltype(out.capacity)>(*json, "capacity");
      return out;
    } catch (const ConfigError&) {
      throw;
    } catch (const Error& error) {
      refuse("is not the head of a recording of decisions: " + std::string(error.what()), 1);
    } catch (const nlohmann::json::exception& error) {
      refuse("is not the head of a recording of decisions: " + std::string(error.what()), 1);
    }
  }

  void append(Recording& out, const Decisions& decisions, std::uint64_t line) const {
    const DecisionRuns& fresh = out.fresh;
    if (decisions.step < fresh.size()) {
      refuse("begins at step " + std::to_string(decisions.step) + ", which the lines before it hold already", line);
    }
    if (decisions.step > fresh.size()) {
      refuse("comes after a hole: steps " + std::to_string(fresh.size()) + " to " + std::to_string(decisions.step - 1) +
                 " were not recorded, because the disk of telemetry.dir was too slow or failed; a run with a hole "
                 "cannot be repeated: record it again on another disk, or cut the file before this line to repeat the "
                 "steps up to there",
             line);
    }
    append_runs(out.fresh, decisions.runs, true);
    if (decisions.padded.empty()) out.padded.append(decisions.steps, false);
    append_runs(out.padded, decisions.padded, false);
  }

  [[noreturn]] void refuse(const std::string& what, std::uint64_t line = 0) const {
    throw ConfigError("policy.recording: " + name_ + (line > 0 ? ":" + std::to_string(line) : "") + " " + what +
                      (line > 0 ? ""
                                : "; it is written by a run with telemetry.decisions = true, and policy.recording "
                                  "names the telemetry.dir of that run"));
  }

  std::string name_;
  std::optional<LineFile> lines_;
};

// Beyond this a line is written at once, so that very short steps do not grow the buffer for good.
constexpr std::size_t kMostRuns = std::size_t{16} * 1024;

}  // namespace

std::filesystem::path recording_file(const std::filesystem::path& dir, std::uint32_t rank, std::uint64_t first_step) {
  std::filesystem::path file = rank_file(dir.native(), kKind, rank);
  if (first_step > 0) file.replace_extension(".from-" + std::to_string(first_step) + ".jsonl");
  return file;
}

std::string header_line(const RecordingHeader& header) {
  Json json{{"forebay", kKind},          {"version", kVersion},        {"rank", header.rank},
            {"ranks", header.ranks},     {"policy", header.policy},    {"capacity", header.capacity},
            {"dataset", header.dataset}, {"settings", header.settings}};
  if (header.first_step > 0) json["first_step"] = header.first_step;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string decisions_line(std::uint64_t step, std::span<const std::uint64_t> runs,
                           std::span<const std::uint64_t> padded) {
  std::string line = "{\"step\":" + std::to_string(step) + ",\"runs\":[";
  append_text(line, runs);
  if (!padded.empty()) append_text(line += "],\"padded\":[", padded);
  return line + "]}\n";
}

Recording read_recording(const std::filesystem::path& file) {
  try {
    return Reader(file).read();
  } catch (const std::bad_alloc&) {
    throw ConfigError("policy.recording: " + printable(file.native()) + " needs more memory than there is");
  }
}

DecisionLog::DecisionLog(const std::filesystem::path& file, const RecordingHeader& header, ConsoleLog& console)
    : name_(printable(file.native())), console_(console), file_(file, console) {
  runs_.reserve(kMostRuns + 2);
  padded_.reserve(kMostRuns + 2);
  file_.write(header_line(header), 1);
  file_.sync();
}

void DecisionLog::add(RecordedStep step) noexcept {
  if (ended_) return;
  try {
    extend(runs_, step.fresh);
    extend(padded_, !step.padded);
    ++next_;
    if (std::max(runs_.size(), padded_.size()) >= kMostRuns) write();
  } catch (const std::exception& error) {
    end(error.what());
  }
}

void DecisionLog::sync() noexcept {
  if (ended_) return;
  try {
    write();
    file_.sync();
    if (file_.lost() > 0) end("it could not be written");
  } catch (const std::exception& error) {
    end(error.what());
  }
}

void DecisionLog::end(std::string_view cause) noexcept {
  if (ended_) return;
  try {
    write();
    file_.sync();
    ended_ = true;
    console_.warn(name_ + " ends before step " + std::to_string(next_) + " (" + std::string(cause) +
                  "): a replay of this run will end there");
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory while reporting; the file is complete up to here
    ended_ = true;
  }
}

// If padded_ has a single run, nothing was padded.
void DecisionLog::write() {
  if (runs_.empty()) return;
  if (padded_.size() == 1) padded_.clear();
  file_.write(decisions_line(written_, runs_, padded_), 1);
  runs_.clear();
  padded_.clear();
  written_ = next_;
}

}  // namespace forebay::measure

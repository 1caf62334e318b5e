// The trace of a rank. Threads add events to tracks of their own, in memory; write() turns all
// tracks into one JSON file at the end of the run, on the thread that ends it.

#include "timeline_file.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"

namespace forebay::measure {
namespace {

// A choice; the text of a long trace is never in memory as a whole.
constexpr std::size_t kPieceOfTrace = std::size_t{64} * 1024;
constexpr double kLongest_s = 1e9;

// The file of one rank: "a/trace.json" on rank 3 of several is "a/trace.3.json".
std::filesystem::path file_of_rank(const std::filesystem::path& file, std::uint32_t rank, std::uint32_t ranks) {
  if (ranks == 1) return file;
  std::filesystem::path name = file.stem();
  name += "." + std::to_string(rank);
  name += file.extension();
  return file.parent_path() / name;
}

double microseconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

// Chrome's trace format: "C" is a counter, "X" an event with a duration; times are in microseconds.
void append_event(std::string& out, const TimelineTrack::Event& event, std::uint32_t pid, std::size_t tid) {
  const auto to = std::back_inserter(out);
  using Kind = TimelineTrack::Kind;
  if (event.kind == Kind::counter) {
    fmt::format_to(to, ",\n{{\"ph\":\"C\",\"pid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"args\":{{\"value\":{}}}}}", pid,
                   event.name, microseconds(event.begin_ns), event.value);
    return;
  }
  fmt::format_to(to, ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{",
                 pid, tid, event.name, microseconds(event.begin_ns), microseconds(event.end_ns - event.begin_ns));
  if (event.kind == Kind::work) {
    fmt::format_to(to, R"("sample":{}}}}})", event.id);
  } else {
    fmt::format_to(to, R"("step":{},"batch":{},"use_index":{}}}}})", event.id, event.value, event.uses);
  }
}

}  // namespace

// The file is opened when the run begins, so that a path that cannot be written is refused then and
// not after hours.
Timeline::Timeline(const std::filesystem::path& file, double seconds, std::uint32_t rank, std::uint32_t ranks)
    : file_(file_of_rank(file, rank, ranks)),
      seconds_(std::clamp(seconds, 0.0, kLongest_s)),
      rank_(rank),
      begin_ns_(steady_ns()) {
  try {
    out_ = ranks == 1 ? open_named(file_) : open_made(file_);
  } catch (const Error& error) {
    throw ConfigError("the trace " + printable(file_.native()) + " cannot be written: " + error.what());
  }
}

// A track has one writer, its thread. Tracks are made before the threads start.
TimelineTrack& Timeline::track(std::string name) {
  const std::int64_t until_ns = begin_ns_ + std::llround(seconds_ * 1e9);
  return *tracks_.emplace_back(std::make_unique<TimelineTrack>(std::move(name), kEventsPerThread, until_ns));
}

// Called at the end of the run, when no thread writes to its track any more.
std::string Timeline::write() {
  std::string text =
      fmt::format(R"([{{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"forebay rank {0}"}}}})", rank_);
  std::size_t events = 0;
  std::uint64_t refused = 0;
  std::uint64_t late = 0;
  for (std::size_t tid = 0; tid < tracks_.size(); ++tid) {
    const TimelineTrack& track = *tracks_[tid];
    refused += track.refused();
    late += track.late();
    if (track.events().empty()) continue;
    fmt::format_to(std::back_inserter(text),
                   ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}",
                   rank_, tid, track.name());
    for (const TimelineTrack::Event& event : track.events()) {
      append_event(text, event, rank_, tid);
      if (text.size() < kPieceOfTrace) continue;
      put(text);
      text.clear();
    }
    events += track.events().size();
  }
  put(text + "\n]\n");
  std::string said = fmt::format("trace of {} events in {}", events, printable(file_.native()));
  if (late > 0) said += fmt::format("; cut off after {:g} s", seconds_);
  if (refused > 0)
    said += fmt::format("; {} events left out, of threads that had more than {}", refused, kEventsPerThread);
  return said;
}

void Timeline::put(std::string_view text) const {
  try {
    write_all(out_, text);
  } catch (const Error& error) {
    throw Error("the trace " + printable(file_.native()) + ": " + error.what());
  }
}

}  // namespace forebay::measure

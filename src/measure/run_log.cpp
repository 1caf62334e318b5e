// The log of a run: writes the line at its beginning and the line at its end, and parses both.
// RunLog is used by the trainer's thread; the other functions have no state.

#include "run_log.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include <forebay/error.hpp>

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>
#include <nlohmann/json.hpp>

#include "base/file_io.hpp"
#include "base/json_numbers.hpp"
#include "base/text.hpp"

namespace forebay::measure {
namespace {

using RunJson = nlohmann::ordered_json;

// Incremented when a reader of older lines could misunderstand new ones.
constexpr std::uint64_t kRunVersion = 1;
constexpr std::size_t kDeepestRunLine = 8;

// Lines may come from any version, or be damaged.
RunHead head_in(const RunJson& json) {
  if (json.at("version") != kRunVersion) {
    throw Error("is of version " + json.at("version").dump() + ", and this Forebay reads version " +
                std::to_string(kRunVersion));
  }
  RunHead head{.rank = whole_number<std::uint32_t>(json, "rank"),
               .ranks = whole_number<std::uint32_t>(json, "ranks"),
               .first_step = whole_number<std::uint64_t>(json, "first_step"),
               .started = json.at("started"),
               .host = json.at("host")};
  if (head.rank >= head.ranks) throw Error("has rank " + std::to_string(head.rank) + " of " + json.at("ranks").dump());
  if (const auto settings = json.find("settings"); settings != json.end()) {
    for (const auto& [key, value] : settings->items()) head.settings.emplace_back(key, value.get<std::string>());
  }
  return head;
}

// Another version of Forebay may have had other figures.
RunEnd end_in(const RunJson& json) {
  const auto summary = json.find("summary");
  const auto profile = json.find("profile");
  try {
    RunEnd end{.failure = json.value("failed", "")};
    if (summary != json.end()) end.summary = summary_from_json(summary->dump());
    if (profile != json.end()) end.profile = profile_from_json(profile->dump());
    return end;
  } catch (const Error&) {
    return {.is_foreign = true};
  }
}

}  // namespace

// ISO 8601 with milliseconds.
std::string utc_now() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::time_point_cast<milliseconds>(std::chrono::system_clock::now());
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (now - second).count());
}

// "" if the system does not say, because the log must not fail for that.
std::string host_name() {
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

// Host names and settings may hold any bytes; what is not UTF-8 is replaced.
std::string head_line(const RunHead& head) {
  RunJson json{{"forebay", "run"},    {"version", kRunVersion},        {"rank", head.rank},
               {"ranks", head.ranks}, {"first_step", head.first_step}, {"started", head.started},
               {"host", head.host}};
  for (const auto& [key, value] : head.settings) json["settings"][key] = value;
  return json.dump(-1, ' ', false, RunJson::error_handler_t::replace) + "\n";
}

std::string end_line(const RunEnd& end) {
  RunJson json{{"forebay", "end"}};
  if (!end.failure.empty()) json["failed"] = end.failure;
  if (end.summary) json["summary"] = RunJson::parse(to_json(*end.summary));
  if (end.profile) json["profile"] = RunJson::parse(to_json(*end.profile));
  return json.dump(-1, ' ', false, RunJson::error_handler_t::replace) + "\n";
}

// For `forebay report` and `forebay top`, which read files of runs that are in progress, or were
// killed.
RunLine parse_run_line(const std::string& line) {
  if (json_depth(line) > kDeepestRunLine) throw Error("is nested too deep");
  try {
    const RunJson json = RunJson::parse(line);
    RunLine out;
    if (json.at("forebay") == "run") {
      out.head = head_in(json);
    } else if (json.at("forebay") == "end") {
      out.end = end_in(json);
    } else {
      throw Error("is neither the beginning nor the end of a run");
    }
    return out;
  } catch (const nlohmann::json::exception& error) {
    throw Error("is not a line of Forebay's telemetry: " + std::string(error.what()));
  }
}

// A run that resumes appends its head to the same file. Both lines are passed to the operating
// system at once, because a run may be killed at any time.
RunLog::RunLog(const std::string& dir, const RunHead& head, ConsoleLog& console)
    : file_(rank_file(dir, "run", head.rank), console,
            head.first_step > 0 ? JsonLinesFile::Mode::append : JsonLinesFile::Mode::truncate) {
  file_.write(head_line(head), 1);
  file_.sync();
}

void RunLog::end(const RunEnd& end) {
  if (std::exchange(ended_, true)) return;
  file_.write(end_line(end), 1);
  file_.sync();
}

}  // namespace forebay::measure

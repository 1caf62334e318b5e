// Reads a run's folder: finds the files of its ranks, reads them in parallel, and brings all ranks
// to bins of the same width. Then it notes, in sentences for the page, what is missing or unusual.
//
// Steps are read if they fit into the byte budget; otherwise intervals if there are any, otherwise
// samples of the steps.

#include "run_data.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include "base/text.hpp"
#include "data/parallel.hpp"
#include "measure/run_files.hpp"
#include "rank_reader.hpp"

namespace forebay::report {
namespace {

namespace fs = std::filesystem;

// The telemetry files in a folder.
struct Listing {
  std::map<std::uint32_t, RankFiles> ranks;
  std::uint64_t step_bytes = 0;
  bool has_steps = false;
  bool has_intervals = false;
  fs::file_time_type last_written = fs::file_time_type::min();
};

// Recordings of resumed runs, whose names contain ".from-STEP", are not read.
void add_file(Listing& listing, const fs::path& file) {
  const std::string text = file.filename().string();
  const std::optional<measure::RankFileName> name = measure::rank_file_name(text);
  if (!name || name->goes_on) return;
  RankFiles& rank = listing.ranks[name->rank];
  rank.rank = name->rank;
  std::error_code error;
  if (name->kind == "run") rank.run = file;
  if (name->kind == "steps") {
    rank.steps = measure::rank_file(file.parent_path().native(), name->kind, name->rank);
    listing.has_steps = true;
    const std::uint64_t size = fs::file_size(file, error);
    if (!error) listing.step_bytes += size;
  }
  if (name->kind == "intervals") {
    rank.intervals = measure::rank_file(file.parent_path().native(), name->kind, name->rank);
    listing.has_intervals = true;
  }
  const fs::file_time_type written = fs::last_write_time(file, error);
  if (!error) listing.last_written = std::max(listing.last_written, written);
}

// Throws if there is no telemetry: most likely it is the wrong folder.
Listing list_files(const fs::path& folder) {
  require_run_folder(folder);
  const std::string name = printable(folder.native());
  std::error_code error;
  Listing listing;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    add_file(listing, it->path());
  }
  if (error) throw Error(name + " cannot be listed: " + error.message());
  if (!listing.has_steps && !listing.has_intervals) {
    throw Error(name +
                " has no steps.RANK.jsonl and no intervals.RANK.jsonl: name the telemetry.dir of a run that had " +
                "telemetry.per_step = true or telemetry.interval_s above 0");
  }
  return listing;
}

std::string utc(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(system);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(second)));
}

// "rank 3", "ranks 3, 5 and 7", "ranks 3, 5, 7, 9, 11 and 20 more"
std::string ranks_text(const std::vector<std::uint32_t>& first, std::size_t count) {
  std::string text = count == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < first.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == count ? " and " : ", ") + std::to_string(first[i]);
  }
  return count > first.size() ? text + " and " + std::to_string(count - first.size()) + " more" : text;
}

constexpr std::size_t kMostNamed = 5;

// The ranks for which is(rank) holds, as text; "" if there are none.
template <typename Is>
std::string those(const RunData& run, Is&& is) {
  std::vector<std::uint32_t> ranks;
  std::size_t count = 0;
  for (const RankData& rank : run.ranks) {
    if (is(rank) && ++count <= kMostNamed) ranks.push_back(rank.rank);
  }
  return count == 0 ? "" : ranks_text(ranks, count);
}

// Ranks below `expected` that have no file, as text; "" if there are none.
std::string missing_ranks(const RunData& run) {
  const std::size_t count = run.expected - run.ranks.size();
  std::vector<std::uint32_t> first;
  auto rank = run.ranks.begin();
  for (std::uint32_t number = 0; number < run.expected && first.size() < std::min(count, kMostNamed); ++number) {
    if (rank != run.ranks.end() && rank->rank == number) {
      ++rank;
    } else {
      first.push_back(number);
    }
  }
  return count == 0 ? "" : ranks_text(first, count);
}

void note_what_is_missing(RunData& run) {
  if (const std::string missing = missing_ranks(run); !missing.empty()) {
    run.notes.push_back("The folder has nothing of " + missing + ".");
  }
  if (const std::string empty = those(run, [](const RankData& rank) { return rank.bins.bins().empty(); });
      !empty.empty()) {
    run.notes.push_back("There are no " + run.read_from + " of " + empty + " yet.");
  }
  if (const auto first = std::ranges::find_if(run.ranks, &RankData::begins_late); first != run.ranks.end()) {
    const auto others = std::ranges::count_if(std::next(first), run.ranks.end(), &RankData::begins_late);
    run.notes.push_back("The " + run.read_from + " before step " + std::to_string(*first->first_step) + " of rank " +
                        std::to_string(first->rank) + " are no longer there (telemetry.max_bytes)" +
                        (others == 0   ? ""
                         : others == 1 ? ", nor the first ones of another rank"
                                       : ", nor the first ones of " + std::to_string(others) + " others") +
                        ", so what is shown begins after them.");
  }
  for (const RankData& rank : run.ranks) {
    if (rank.cut.empty()) continue;
    run.notes.push_back(rank.cut +
                        " is cut short, as a killed process or a full disk leaves it; the line is left out.");
  }
}

void note_how_it_went(RunData& run) {
  const auto foreign = std::ranges::find_if(run.ranks, [](const RankData& rank) { return !rank.foreign.empty(); });
  if (foreign != run.ranks.end()) {
    run.notes.push_back(foreign->foreign +
                        " has other figures than this Forebay: the summary and the profile are left out.");
  }
  const auto failed = std::ranges::find_if(run.ranks, [](const RankData& rank) { return !rank.failure.empty(); });
  if (failed != run.ranks.end()) run.notes.push_back("An error ended the run: " + failed->failure);
  const RankData& first = run.ranks.front();
  if (first.parts > 1) {
    run.notes.push_back("The run was resumed " + std::to_string(first.parts - 1) +
                        (first.parts == 2 ? " time" : " times") +
                        "; the times of its parts are added up, and its summary and profile are of the last part.");
  }
  if (first.head && !run.has_ended()) {
    run.notes.push_back("The end of the run is not written: it is still going, or was killed. A file last changed at " +
                        run.last_written + ".");
  }
  if (!first.head)
    run.notes.emplace_back("There is no run.0.jsonl, so the configuration and the profile are not known.");
  if (run.is_sampled()) {
    run.notes.push_back("The " + run.read_from +
                        " are too many to be read in a few seconds: stretches of the files, "
                        "spread evenly, stand for the rest. Shares are right, counts are left out.");
  } else if (run.read_from == "intervals") {
    run.notes.emplace_back("Read from the intervals: what is shorter than one of them cannot be seen.");
  }
  std::uint64_t dropped = 0;
  for (const RankData& rank : run.ranks) dropped += rank.summary ? rank.summary->dropped_records : 0;
  if (dropped > 0) run.notes.push_back("Telemetry itself lost " + std::to_string(dropped) + " records.");
}

// Bins should be wide enough to hold several steps each. Chosen, both.
constexpr std::size_t kFewestBins = 16;
constexpr double kStepsOfBin = 4;

// Bins of different ranks merge without splitting, because their widths differ by powers of two.
void align(RunData& run) {
  run.capacity = static_cast<std::uint32_t>(std::strtoul(run.setting("queue.capacity").c_str(), nullptr, 10));
  for (const RankData& rank : run.ranks) {
    run.width_s = std::max(run.width_s, rank.bins.width_s());
    run.end_s = std::max(run.end_s, rank.end_s);
    run.capacity = std::max(run.capacity, rank.capacity);
  }
  double most_steps = 0;
  for (const RankData& rank : run.ranks) {
    const double steps = rank.bins.total().steps;
    // If only stretches were read, each bin should contain one, too.
    most_steps = std::max(
        most_steps, rank.stretches > 0 ? std::min(steps, kStepsOfBin * static_cast<double>(rank.stretches)) : steps);
  }
  const auto count = [&] { return static_cast<std::size_t>(run.end_s / run.width_s) + 1; };
  while (count() > kFewestBins && static_cast<double>(count()) > most_steps / kStepsOfBin) run.width_s *= 2;
  run.job.resize(count());
  for (RankData& rank : run.ranks) {
    rank.bins.widen_to(run.width_s);
    const std::vector<Bin>& bins = rank.bins.bins();
    for (std::size_t i = 0; i < std::min(bins.size(), run.job.size()); ++i) run.job[i].add(bins[i]);
  }
}

}  // namespace

void require_run_folder(const fs::path& folder) {
  const std::string name = printable(folder.native());
  std::error_code error;
  const bool is_there = fs::exists(folder, error);
  if (error) throw Error(name + " cannot be looked into: " + error.message());
  if (!is_there) throw Error(name + ": there is no such folder; name the telemetry.dir of a run");
  if (!fs::is_directory(folder, error)) {
    throw Error(name + " is not a folder: name the telemetry.dir of a run, which holds its files");
  }
}

const measure::Settings& RunData::settings() const noexcept {
  static const measure::Settings none;
  return ranks.front().head ? ranks.front().head->settings : none;
}

std::string RunData::setting(const std::string& key) const {
  for (const auto& [known, value] : settings()) {
    if (known == key) return value;
  }
  return {};
}

bool RunData::has_ended() const noexcept {
  return std::ranges::all_of(ranks, [](const RankData& rank) { return rank.has_ended; });
}

bool RunData::is_sampled() const noexcept {
  return std::ranges::any_of(ranks, [](const RankData& rank) { return rank.stretches > 0; });
}

std::string RunData::of_shown() const {
  return std::ranges::any_of(ranks, &RankData::begins_late) ? " (of what is shown)" : "";
}

// The job has a summary only if every rank has one.
std::optional<Summary> RunData::summary() const {
  std::vector<Summary> summaries;
  for (const RankData& rank : ranks) {
    if (!rank.summary) return std::nullopt;
    summaries.push_back(*rank.summary);
  }
  return combine(summaries);
}

std::vector<Profile> RunData::profiles() const {
  std::vector<Profile> profiles;
  for (const RankData& rank : ranks) {
    if (rank.profile) profiles.push_back(*rank.profile);
  }
  return profiles;
}

// The budget is shared equally by the ranks.
RunData read_run(const fs::path& folder, const ReadLimits& limits,
                 const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Listing listing = list_files(folder);
  const bool by_steps = listing.has_steps && (listing.step_bytes <= limits.steps || !listing.has_intervals);
  const RecordKind kind = by_steps ? RecordKind::steps : RecordKind::intervals;
  std::vector<RankFiles> files;
  for (const auto& [rank, of_rank] : listing.ranks) files.push_back(of_rank);
  const std::uint64_t budget = (by_steps ? limits.steps : limits.intervals) / files.size();

  RunData run;
  run.folder = folder;
  run.read_from = by_steps ? "steps" : "intervals";
  run.last_written = utc(listing.last_written);
  run.ranks.resize(files.size());
  data::run_parallel({files.size(), data::index_threads(), progress},
                     [&](std::size_t i) { run.ranks[i] = read_rank(files[i], kind, budget); });
  run.expected = listing.ranks.rbegin()->first + 1;
  for (const RankData& rank : run.ranks) run.expected = std::max(run.expected, rank.head ? rank.head->ranks : 0);
  align(run);
  note_what_is_missing(run);
  note_how_it_went(run);
  return run;
}

// Uses the last part of each path, or as many parts as make the names differ.
void name_runs(std::vector<RunData>& runs) {
  const auto last_parts = [](const fs::path& folder, std::size_t parts) {
    const fs::path path = fs::absolute(folder).lexically_normal();
    std::vector<std::string> all;
    for (const fs::path& part : path) {
      if (!part.empty()) all.push_back(part.string());
    }
    std::string name;
    for (std::size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) {
      name += (name.empty() || name.ends_with('/') ? "" : "/") + all[i];
    }
    return printable(name);
  };
  constexpr std::size_t kMostParts = 64;
  for (std::size_t parts = 1; parts <= kMostParts; ++parts) {
    std::set<std::string> names;
    for (RunData& run : runs) {
      run.name = last_parts(run.folder, parts);
      names.insert(run.name);
    }
    if (names.size() == runs.size()) return;
  }
}

}  // namespace forebay::report

// Repeating a recorded run: which file each rank follows, and whether this run is the one that was
// recorded. A recording holds decisions only, so everything that decides which batch a reuse serves
// must be equal: ranks, dataset, and a list of settings. Whatever differs is refused before the
// first step, with the key and both values. On all ranks, at the start.

#include "replay.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "ring/queue_slots.hpp"

namespace forebay::job {
namespace {

// What decides, beside the batches themselves, which of them a reuse serves. The lag and the end of epochs do: they
// decide where a rank that is ahead serves padding.
constexpr std::array<std::string_view, 4> kPicks{"queue.pool", "policy.pick", "mpi.lag", "mpi.epoch_end"};
// And, with several ranks, whether they hand batches over, and then what is handed over when.
constexpr std::array<std::string_view, 1> kMode{"mpi.mode"};
constexpr std::array<std::string_view, 2> kHandsOver{"queue.capacity", "run.epochs"};
// With queue.capacity = "auto" too.
constexpr std::array<std::string_view, 1> kGrows{"queue.memory"};

Settings decisive_settings(const Options& options, std::uint32_t ranks) {
  Settings settings;
  Options settled = options;
  settled.queue.pool = ring::pool_of(options.queue);
  add_settings(settings, settled, kPicks);
  if (ranks == 1) return settings;
  add_settings(settings, options, kMode);
  if (options.mpi.mode != MpiMode::local) return settings;
  Options ends = options;
  if (ends.run.steps > 0) ends.run.epochs = 0;  // a run of steps opens epochs without end
  add_settings(settings, ends, kHandsOver);
  if (ring::is_automatic(options.queue)) add_settings(settings, options, kGrows);
  return settings;
}

constexpr const char* kLoop = "loop";
constexpr const char* kAnyLoop = "any";

bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw ConfigError("policy.recording: " + printable(file.native()) + ":1: " + what);
}

}  // namespace

bool is_recorded(const Options& options) noexcept {
  return options.telemetry.decisions && !options.telemetry.dir.empty() && !options.run.eval;
}

bool is_replay(const Options& options) noexcept { return options.policy.name == "replay" && !options.run.eval; }

measure::RecordingHeader recording_header(const Options& options, const order::JobState& job, std::uint32_t rank,
                                          std::uint64_t first_step) {
  measure::RecordingHeader header{.rank = rank,
                                  .ranks = job.ranks,
                                  .first_step = first_step,
                                  .dataset = job.dataset,
                                  .settings = decisive_settings(options, job.ranks),
                                  .policy = options.policy.name,
                                  .capacity = options.queue.capacity};
  header.settings.insert(job.settings.begin(), job.settings.end());
  return header;
}

// A single rank serves the same in both kinds of loop.
void note_loop(measure::RecordingHeader& header, bool by_epochs) {
  if (by_epochs && header.ranks > 1) header.settings.emplace(kLoop, "epochs");
}

void note_any_loop(measure::RecordingHeader& header) { header.settings.insert_or_assign(kLoop, kAnyLoop); }

// max_uses and max_wait_ms are in the recorded decisions already; applied again they would change
// them.
PolicyOptions policy_options(const Options& options, std::uint32_t rank, std::uint64_t first_step) {
  PolicyOptions made = options.policy;
  // Evaluation asks none, and its options may name one that only the training has registered.
  if (options.run.eval) made.name = "block";
  if (made.name != "replay") return made;
  made.recording = measure::recording_file(made.recording, rank, first_step).native();
  made.max_uses = 0;
  made.max_wait_ms = 0;
  return made;
}

ReplayedRun::ReplayedRun(const Options& options, std::uint32_t rank, std::uint32_t ranks, std::uint64_t first_step)
    : file_(measure::recording_file(options.policy.recording, rank, first_step)),
      decisive_(decisive_settings(options, ranks)) {
  if (!options.telemetry.dir.empty() && is_same_folder(options.policy.recording, options.telemetry.dir)) {
    throw ConfigError("policy.recording and telemetry.dir are the same folder, \"" +
                      printable(options.policy.recording) +
                      "\": this run's files would replace those it repeats; name another telemetry.dir, or \"\" to "
                      "write no files");
  }
  measure::Recording recording = measure::read_recording(file_);
  header_ = std::move(recording.header);
  steps_ = recording.fresh.size();
  if (header_.ranks != ranks) {
    refuse(file_, "the run was recorded on " + counted(header_.ranks, "rank") + " and this job has " +
                      std::to_string(ranks) + ": start it with as many");
  }
  if (header_.rank != rank) {
    refuse(file_, "this is the recording of rank " + std::to_string(header_.rank) + ", not of rank " +
                      std::to_string(rank) + ": the files were renamed");
  }
}

void ReplayedRun::require_loop(bool by_epochs) const {
  const auto loop = header_.settings.find(kLoop);
  const bool recorded = loop != header_.settings.end();
  if (header_.ranks == 1 || recorded == by_epochs || (recorded && loop->second == kAnyLoop)) return;
  refuse(file_, std::string("the run was recorded ") + (recorded ? "in" : "without") +
                    " a loop over epochs (next_epoch()) and this one runs " + (by_epochs ? "in" : "without") +
                    " one: only with the same can it be repeated");
}

void ReplayedRun::require_same_run(const order::JobState& ours) const {
  Settings settings = ours.settings;
  settings.insert(decisive_.begin(), decisive_.end());
  if (const auto loop = header_.settings.find(kLoop); loop != header_.settings.end()) settings.insert(*loop);
  if (const auto difference = first_difference(header_.settings, settings)) {
    refuse(file_, "the run was recorded with " + difference->theirs + " and this one has " + difference->ours +
                      ": only with the same can it be repeated");
  }
  if (header_.dataset != ours.dataset) {
    refuse(file_, "the run was recorded with another dataset (fingerprint " + printable(header_.dataset) +
                      ") than this one (" + ours.dataset + "): check dataset.path, dataset.classes and dataset.index");
  }
  if (const auto contents = other_contents(header_.settings, settings)) {
    refuse(file_, "the run was recorded with files of the same sizes, but other contents (" + contents->theirs +
                      ") than these (" + contents->ours + "): check dataset.path");
  }
}

}  // namespace forebay::job

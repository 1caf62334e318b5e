#include "replay.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include "config/schema.hpp"
#include "config/writer.hpp"
#include "telemetry/text.hpp"

namespace forebay {
namespace {

constexpr std::array<std::string_view, 9> kDecisive{
    "seed",    "dataset.batch_size", "dataset.shuffle", "dataset.drop_last", "queue.pool", "policy.pick",
    "mpi.lag", "mpi.virtual_shards", "mpi.epoch_end"};

// Whether the key decides which batches there are, pixels included, or which of them a reuse serves. The lag and the
// end of epochs do: they decide where a rank that is ahead serves padding.
bool is_decisive(const config::Key& key) {
  return key.section == "transform" || std::ranges::find(kDecisive, config::full_name(key)) != kDecisive.end();
}

std::map<std::string, std::string> decisive_settings(const Options& options) {
  std::map<std::string, std::string> settings;
  for (const config::Key& key : config::keys()) {
    if (is_decisive(key)) settings.emplace(config::full_name(key), config::value_text(key, options));
  }
  return settings;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

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

RecordingHeader recording_header(const Options& options, const Dataset& dataset, std::uint32_t rank,
                                 std::uint32_t ranks) {
  return {.rank = rank,
          .ranks = ranks,
          .dataset = hexadecimal(fingerprint(dataset)),
          .settings = decisive_settings(options),
          .policy = options.policy.name,
          .capacity = options.queue.capacity};
}

PolicyOptions policy_options(const Options& options, std::uint32_t rank) {
  PolicyOptions made = options.policy;
  if (made.name != "replay") return made;
  if (options.run.eval) {
    made.name = "block";  // never asked
    return made;
  }
  made.recording = recording_file(made.recording, rank).native();
  made.max_uses = 0;
  made.max_wait_ms = 0;
  return made;
}

ReplayedRun::ReplayedRun(const Options& options, std::uint32_t rank, std::uint32_t ranks)
    : file_(recording_file(options.policy.recording, rank)) {
  if (!options.telemetry.dir.empty() && is_same_folder(options.policy.recording, options.telemetry.dir)) {
    throw ConfigError("policy.recording and telemetry.dir are the same folder, \"" +
                      printable(options.policy.recording) +
                      "\": this run's files would replace those it repeats; name another telemetry.dir, or \"\" to "
                      "write no files");
  }
  Recording recording = read_recording(file_);
  header_ = std::move(recording.header);
  steps_ = recording.fresh.size();
  if (header_.ranks != ranks) {
    refuse(file_, "the run was recorded on " + std::to_string(header_.ranks) +
                      (header_.ranks == 1 ? " rank" : " ranks") + " and this job has " + std::to_string(ranks) +
                      ": start it with as many");
  }
  if (header_.rank != rank) {
    refuse(file_, "this is the recording of rank " + std::to_string(header_.rank) + ", not of rank " +
                      std::to_string(rank) + ": the files were renamed");
  }
  for (const auto& [key, value] : decisive_settings(options)) {
    const auto recorded = header_.settings.find(key);
    if (recorded != header_.settings.end() && recorded->second == value) continue;
    std::string what = "the run was recorded with ";
    what += recorded == header_.settings.end() ? "no " + key : key + " = " + recorded->second;
    what.append(" and this one has ").append(key).append(" = ").append(value);
    refuse(file_, what + ": only with the same can it be repeated");
  }
}

void ReplayedRun::require_dataset(const Dataset& dataset) const {
  const std::string ours = hexadecimal(fingerprint(dataset));
  if (header_.dataset == ours) return;
  refuse(file_, "the run was recorded with another dataset (fingerprint " + printable(header_.dataset) +
                    ") than this one (" + ours + "): check dataset.path, dataset.classes and dataset.index");
}

}  // namespace forebay

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "decision_runs.hpp"

// The recorded decisions of one rank: what its file holds, written and read. docs/telemetry.md describes the format.
namespace forebay {

// The first line: what a run must have in common with the recorded one to repeat it.
struct RecordingHeader {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t first_step = 0;  // of the run: above 0 when it went on from a saved state
  std::string dataset;           // fingerprint, 16 hexadecimal digits
  // By full name of the key, as TOML: what decides which batches there are and which of them a reuse serves.
  std::map<std::string, std::string> settings;
  // For people; a replay may differ in these.
  std::string policy;
  std::int64_t capacity = 0;
};

struct Recording {
  RecordingHeader header;
  DecisionRuns fresh;  // by step; a step that is not fresh reused the batch that the pick chose
};

// "DIR/decisions.RANK.jsonl", or "DIR/decisions.RANK.from-STEP.jsonl" of a run that went on at a step above 0.
[[nodiscard]] std::filesystem::path recording_file(const std::filesystem::path& dir, std::uint32_t rank,
                                                   std::uint64_t first_step = 0);

// One line each, newline included.
[[nodiscard]] std::string header_line(const RecordingHeader& header);
// `runs`: lengths of runs of steps, fresh and reused in turn, beginning with fresh (0 when the first is a reuse).
[[nodiscard]] std::string decisions_line(std::uint64_t step, std::span<const std::uint64_t> runs);

// Reads a recording up to its end, or to a last line that was cut off. Throws ConfigError naming policy.recording, the
// file and the line: not there, not a regular file, not a recording, of another version, no steps, or steps missing in
// between. Takes no more memory than a few times the file.
[[nodiscard]] Recording read_recording(const std::filesystem::path& file);

}  // namespace forebay

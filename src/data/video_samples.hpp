#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "record_table.hpp"
#include "video/clip.hpp"

namespace forebay::data {

struct BuildContext;
struct IndexDraft;
struct Scan;

// The rule has no frames if samples are images.
[[nodiscard]] constexpr video::ClipRule clip_rule(const ClipOptions& clip) noexcept {
  return {.frames = static_cast<std::uint32_t>(clip.frames), .stride = static_cast<std::uint32_t>(clip.stride)};
}

// Throws ConfigError naming clip.frames unless the samples of a program's dataset are clips or images as the run
// expects. REQUIRES: it has samples.
void require_clips(const Dataset& dataset, const ClipOptions& clip);

// Makes the clips of an index begin in the middle of their range, and their readers read no more than that requires.
void center_clips(Dataset& dataset) noexcept;

// The clip of these frames that an evaluation serves.
[[nodiscard]] constexpr RecordTable::Clip middle_of(const RecordTable::Clip& clip,
                                                    const video::ClipRule& rule) noexcept {
  const std::uint64_t span = rule.span();
  return clip.frames <= span ? clip : RecordTable::Clip{clip.first + (clip.frames - span) / 2, span};
}

// The parts of the video with this table that a reader of a clip needs. Throws SampleError, also if the file does not
// have that many bytes. REQUIRES: file_bytes is not negative.
[[nodiscard]] video::ClipBytes clip_at(std::span<const std::byte> table, const RecordTable::Clip& at,
                                       const video::ClipRule& rule, std::int64_t file_bytes);
// Reserves memory for a clip and fills in the table; the file's bytes must be read into the returned rest.
[[nodiscard]] std::span<std::byte> reserve(const video::ClipBytes& clip, ReadTarget& target);

// Throws ConfigError naming clip.frames if this build or machine cannot read videos.
void require_videos();

// The options with which an index of clips is built: clip.segment becomes a field of two numbers,
// which make_clips() removes.
[[nodiscard]] DatasetOptions with_segments(const DatasetOptions& options);
// A remark for a run that does not set clip.segment but whose table has columns that look like the
// beginning and end of segments; "" if there are none.
[[nodiscard]] std::string unused_segments(std::span<const std::string> columns);

// "clip.frames = 16, clip.stride = 2, ...".
[[nodiscard]] std::string clips_text(const ClipOptions& clip);

// The file name endings of samples, and the word for such a file.
[[nodiscard]] std::string_view sample_endings(const ClipOptions& clip) noexcept;
[[nodiscard]] std::string_view sample_noun(const ClipOptions& clip) noexcept;

// If samples are clips, replaces the images of a scan by its videos.
void take_videos(const ClipOptions& clip, Scan& scan);

// Indexes the videos that are a draft's samples, in parallel, and replaces each by its clips. Unusable videos are
// logged. Throws ConfigError naming dataset.path if there are no clips or the store fails.
void make_clips(const BuildContext& context, IndexDraft& draft);

}  // namespace forebay::data

// Builds datasets whose samples are clips. A format first indexes files as samples, whatever is in
// them. Then make_clips() reads each file once, from one end to the other and in parallel, to get
// the table of its packets, and replaces its sample by those of its clips.
//
// The index stores which frames a clip may begin with; the frame that it does begin with is chosen
// when it is made (make/sample_maker.cpp). So a reader knows the bytes that a clip may need, and
// another start in each epoch needs no other entry in the index.

#include "video_samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "fields.hpp"
#include "file_nature.hpp"
#include "object_samples.hpp"
#include "parallel.hpp"
#include "store/files.hpp"
#include "video/index_video.hpp"

namespace forebay::data {
namespace {

using Clips = std::vector<RecordTable::Clip>;
using Segment = std::array<double, 2>;  // from a row of a table: beginning and end

// The result of indexing a video.
struct Video {
  // The clips for one row that names the video, or for all of them if there are no segments.
  struct Part {
    Clips clips = {};
    std::string problem = {};  // why there are no clips
  };
  std::optional<RecordTable::Stamp> stamp;  // nothing if the file cannot be opened
  std::vector<std::byte> table;
  video::VideoFacts facts;
  std::vector<Part> parts;
  std::string problem;       // why the video cannot be used
  bool is_too_long = false;  // one of its clips may need more bytes than a sample may have
};

// The clips of a part of a video. Without clip.every there is one, which may begin with any frame
// that leaves room for it. With clip.every, each run of so many possible first frames makes one
// clip.
Clips clips_of(const ClipOptions& clip, const RecordTable::Clip& part) {
  const std::uint64_t span = clip_rule(clip).span();
  if (part.frames < span) return clip.short_videos == ShortVideos::skip ? Clips{} : Clips{part};
  Clips clips;
  const std::uint64_t starts = part.frames - span + 1;
  const std::uint64_t every = clip.every > 0 ? static_cast<std::uint64_t>(clip.every) : starts;
  for (std::uint64_t first = 0; first < starts; first += every) {
    const std::uint64_t among = std::min(every, starts - first);
    const RecordTable::Clip window{.first = part.first + first, .frames = among - 1 + span};
    clips.push_back(clip.start == ClipStart::random ? window : middle_of(window, clip_rule(clip)));
  }
  return clips;
}

// The clips of a segment of a video with `frames` frames, which are shown at the times `shown_at`
// if segments are in seconds. Tables round times, so a segment includes a frame that is shown up to
// kRounding before it begins, and excludes one that is shown up to kRounding before it ends.
Video::Part part_of(const ClipOptions& clip, const Segment& segment, std::uint64_t frames,
                    const std::vector<double>& shown_at) {
  constexpr double kRounding = 1e-3;
  const auto text = [&](double number) { return shortest(number) + (clip.unit == ClipUnit::seconds ? " s" : ""); };
  const auto [begin, end] = segment;
  if (begin < 0 || !(begin < end)) return {.problem = "a segment from " + text(begin) + " to " + text(end)};
  const auto frame_at = [&](double number) {
    const auto all = static_cast<double>(frames);
    if (clip.unit == ClipUnit::frames) return static_cast<std::uint64_t>(std::min(std::ceil(number), all));
    return static_cast<std::uint64_t>(std::ranges::lower_bound(shown_at, number - kRounding) - shown_at.begin());
  };
  const RecordTable::Clip part{.first = frame_at(begin), .frames = frame_at(end) - frame_at(begin)};
  if (part.first >= frames)
    return {.problem = "a segment from " + text(begin) + ", and the video has " + counted(frames, "frame")};
  if (part.frames == 0) return {.problem = "no frame between " + text(begin) + " and " + text(end)};
  return {.clips = clips_of(clip, part)};
}

video::ClipBytes bytes_of(const video::IndexedVideo& video, const RecordTable::Clip& at, const video::ClipRule& rule) {
  const std::uint64_t starts = at.frames > rule.span() ? at.frames - rule.span() + 1 : 1;
  return video.clip(at.first, starts, rule, at.first + at.frames);
}

// Whether a clip may need more bytes than a sample may have, which only a larger file makes
// possible.
bool is_too_long(const Video& video, const video::IndexedVideo& indexed, const video::ClipRule& rule) {
  if (video.stamp->bytes + 2 * video.table.size() <= kLargestSampleFile) return false;
  const auto takes_too_much = [&](const RecordTable::Clip& clip) {
    const video::ClipBytes bytes = bytes_of(indexed, clip, rule);
    return bytes.length > kLargestSampleFile - std::min(kLargestSampleFile, bytes.table.size());
  };
  return std::ranges::any_of(video.parts,
                             [&](const auto& part) { return std::ranges::any_of(part.clips, takes_too_much); });
}

// If the file is not what its name says, the error says so, which is more helpful than a demuxer's
// message.
std::vector<std::byte> table_of(const OpenFile& file, const video::VideoSource& source, std::vector<double>* shown_at) {
  if (source.bytes == 0) throw SampleError("the file is empty");
  try {
    return video::index_video(source, shown_at);
  } catch (const SampleError& error) {
    const std::string nature = error.is_transient() ? std::string() : nature_of_file(file);
    if (nature.empty()) throw;
    throw SampleError("the file is " + nature);
  }
}

// Indexes one video, on any thread. A store that fails ends the build, because an index of what can
// be read now would lack the rest.
Video look_through(const std::string& path, const ClipOptions& clip, std::span<const Segment> segments) {
  Video video;
  try {
    const OpenFile file = store::open_patiently(path);
    video.stamp = RecordTable::stamp_of(file);
    const auto read = [&](std::uint64_t at, std::span<std::byte> to) { read_at_patiently(file, at, to); };
    std::vector<double> shown_at;
    video.table =
        table_of(file, {.bytes = file.size, .read = read}, clip.unit == ClipUnit::seconds ? &shown_at : nullptr);
    const video::IndexedVideo indexed(video.table);
    video.facts = indexed.facts();
    if (clip.segment.empty()) video.parts.push_back({.clips = clips_of(clip, {.frames = video.facts.frames})});
    for (const Segment& segment : segments) video.parts.push_back(part_of(clip, segment, video.facts.frames, shown_at));
    video.is_too_long = is_too_long(video, indexed, clip_rule(clip));
  } catch (const SampleError& error) {
    if (error.is_transient() && !is_truncated(error)) end_scan(path, error);
    video.problem = error.what();
  }
  return video;
}

// Whether the name contains the word, as "start_frame" and "Start" contain "start".
bool has_word(std::string_view name, std::string_view word) {
  const std::string text = lower_case(name);
  const auto is_letter = [&](std::size_t at) { return at < text.size() && text[at] >= 'a' && text[at] <= 'z'; };
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  }
  return false;
}

// Replaces a column by its rows `rows`, in that order. A row may occur several times, or not at
// all.
template <typename T>
void take_rows(std::vector<T>& column, std::span<const std::size_t> rows) {
  if (column.empty()) return;
  std::vector<T> taken;
  taken.reserve(rows.size());
  for (const std::size_t row : rows) taken.push_back(column[row]);
  column = std::move(taken);
}

void take_rows(RecordTable::FieldColumn& field, std::span<const std::size_t> rows) {
  take_rows(field.source, rows);
  take_rows(field.record, rows);
  const std::vector<std::byte> values = std::exchange(field.values, {});
  const std::vector<std::uint64_t> ends = std::exchange(field.ends, {});
  for (std::size_t i = 0; !ends.empty() && i < rows.size(); ++i) {
    const std::uint64_t begin = rows[i] == 0 ? 0 : ends[rows[i] - 1];
    field.add_values(std::span(values).subspan(begin, ends[rows[i]] - begin));
  }
}

// Logs unusable videos and segments: bad ones and warnings, which a run reports, and notes for
// `forebay index`.
void log(const ClipOptions& clip, const std::vector<std::string>& paths, const std::vector<Video>& videos,
         const std::string& root, SkipLog& skipped) {
  const video::ClipRule rule = clip_rule(clip);
  std::vector<std::string> shorter;
  for (std::size_t i = 0; i < videos.size(); ++i) {
    const Video& video = videos[i];
    if (!video.problem.empty()) {
      skipped.add_bad(paths[i], video.problem);
    } else if (video.is_too_long) {
      skipped.add_warning(paths[i], "left out: a clip that may begin anywhere in it takes more than 1 GiB; set " +
                                        std::string(clip.every > 0 ? "a smaller clip.every" : "clip.every"));
    } else {
      for (const auto& [clips, problem] : video.parts) {
        if (!problem.empty()) skipped.add_bad(paths[i], "clip.segment: " + problem);
        if (!problem.empty() || !clips.empty()) continue;
        skipped.add_note(paths[i], clip.segment.empty() ? "has " + counted(video.facts.frames, "frame") +
                                                              ", and a clip spans " + std::to_string(rule.span())
                                                        : "a segment of it is shorter than a clip");
        shorter.push_back(paths[i]);
      }
    }
  }
  if (shorter.empty()) return;
  constexpr std::size_t kNamed = 3;
  const std::string noun = clip.segment.empty() ? "video" : "segment";
  std::size_t parts = 0;
  for (const Video& video : videos) parts += video.parts.size();
  skipped.add_warning(root, counted(shorter.size(), noun) + " of " + std::to_string(parts) +
                                " left out, because a clip spans " + std::to_string(rule.span()) + " frames: " +
                                quoted_names(std::vector<std::string_view>(shorter.begin(), shorter.end()), kNamed) +
                                "; clip.short_videos = \"repeat_last\" keeps them");
}

// The error if none of the videos has a clip.
ConfigError no_clip(const DatasetOptions& options, std::span<const Video> videos, const IndexDraft& draft) {
  std::uint64_t longest = 0;
  for (const Video& video : videos) longest = std::max(longest, video.facts.frames);
  const std::string span = std::to_string(clip_rule(options.clip).span());
  std::string text = "found " + counted(videos.size(), "video") + ", and none has a clip of " + span + " frames";
  if (std::ranges::none_of(videos, [](const Video& video) { return video.stamp.has_value(); })) {
    text = "names " + counted(videos.size(), "video") + ", and none can be opened; relative paths begin in " +
           printable(draft.root);
  } else if (longest > 0) {
    text += (options.clip.segment.empty() ? "; the longest has " + std::to_string(longest)
                                          : std::string(" in its segments")) +
            ": lower clip.frames or clip.stride, or set clip.short_videos = \"repeat_last\"";
  }
  return path_error(options, text + draft.skipped.first_bad());
}

}  // namespace

void require_videos() {
  const std::string_view problem = video::problem_of_videos();
  if (!problem.empty()) throw ConfigError("clip.frames: " + std::string(problem));
}

DatasetOptions with_segments(const DatasetOptions& options) {
  DatasetOptions with = options;
  if (options.clip.segment.empty()) return with;
  with.fields.push_back({.name = std::string(kSegmentField),
                         .from = options.clip.segment,
                         .kind = FieldKind::numbers,
                         .dtype = DType::float64,
                         .shape = {2}});
  return with;
}

std::string unused_segments(std::span<const std::string> columns) {
  const auto called = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find_if(columns, [&](const std::string& name) {
      return std::ranges::any_of(words, [&](std::string_view word) { return has_word(name, word); });
    });
  };
  const auto begin = called({"start", "begin"});
  const auto end = called({"stop", "end"});
  if (begin == columns.end() || end == columns.end()) return "";
  return "has the columns \"" + printable(*begin) + "\" and \"" + printable(*end) +
         "\", and clips may be of any frames of a video; clip.segment = \"" + printable(*begin) + ", " +
         printable(*end) + "\" makes them of those between";
}

void require_clips(const Dataset& dataset, const ClipOptions& clip) {
  const bool are_clips = dataset.sample(0).encoding == Encoding::video;
  if (are_clips != (clip.frames > 0)) {
    throw ConfigError("clip.frames = " + std::to_string(clip.frames) + ", and the samples of the dataset are " +
                      (are_clips ? "clips: set it to what the dataset was opened with"
                                 : "images: clips are made of the videos that dataset.path names, in class folders, a "
                                   "list or a table"));
  }
  const IndexImage* const image = image_of(dataset);
  if (!are_clips || image == nullptr || image->record().origin.clip == clip) return;
  throw ConfigError("clip.frames: the dataset was opened with " + clips_text(image->record().origin.clip) + ", not " +
                    clips_text(clip));
}

video::ClipBytes clip_at(std::span<const std::byte> table, const RecordTable::Clip& at, const video::ClipRule& rule,
                         std::int64_t file_bytes) {
  const auto bytes = static_cast<std::uint64_t>(file_bytes);
  video::ClipBytes clip = bytes_of(video::IndexedVideo(table), at, rule);
  const bool is_within = clip.offset <= bytes && clip.length <= bytes - clip.offset;
  if (!is_within || clip.length > kLargestSampleFile) throw SampleError("damaged: the index has other packets of it");
  return clip;
}

std::span<std::byte> reserve(const video::ClipBytes& clip, ReadTarget& target) {
  const std::span<std::byte> bytes = target.reserve(clip.table.size() + clip.length);
  std::ranges::copy(clip.table, bytes.begin());
  return bytes.subspan(clip.table.size());
}

std::string clips_text(const ClipOptions& clip) {
  return "clip.frames = " + std::to_string(clip.frames) + ", stride = " + std::to_string(clip.stride) +
         ", start = " + (clip.start == ClipStart::random ? "\"random\"" : "\"center\"") +
         ", every = " + std::to_string(clip.every) +
         ", short_videos = " + (clip.short_videos == ShortVideos::skip ? "\"skip\"" : "\"repeat_last\"") +
         ", segment = \"" + printable(clip.segment) + "\"" + (clip.unit == ClipUnit::seconds ? " in seconds" : "");
}

std::string_view sample_endings(const ClipOptions& clip) noexcept {
  return clip.frames > 0 ? kVideoEndings : kImageEndings;
}

std::string_view sample_noun(const ClipOptions& clip) noexcept { return clip.frames > 0 ? "video" : "image"; }

void take_videos(const ClipOptions& clip, Scan& scan) {
  if (clip.frames == 0) return;
  PathList videos;
  PathList others = std::move(scan.images);
  for (const std::string_view path : scan.others) (is_video_name(path) ? videos : others).add(path);
  others.sort();
  for (Skipped& entry : scan.unusable) entry.bad = entry.bad && !is_image_name(entry.path);
  scan.images = std::move(videos);
  scan.others = std::move(others);
}

void make_clips(const BuildContext& context, IndexDraft& draft) {
  const ClipOptions& options = context.options.clip;
  RecordTable& table = draft.table;
  const std::size_t sources = table.sources.size();
  // Rows that name the same video share one source, so that it is read once and the index has its
  // packets once.
  std::unordered_map<std::string_view, std::uint32_t> first_of;
  for (std::uint32_t& source : table.source) source = first_of.try_emplace(table.sources[source], source).first->second;
  std::vector<std::uint32_t> used;  // sources that are videos; others hold fields
  std::vector<std::size_t> place(sources, SIZE_MAX);
  for (const std::uint32_t source : table.source) {
    if (std::exchange(place[source], 0) == SIZE_MAX) used.push_back(source);
  }
  std::ranges::sort(used);
  draft.counts.images = used.size();
  std::vector<std::string> paths;
  for (const std::uint32_t source : used) {
    place[source] = paths.size();
    const std::string path(table.sources[source]);
    paths.push_back(store::is_absolute(path) ? path : join_path(draft.root, path));
  }
  // For each row, the number of its part of the video; always 0 if there are no segments.
  std::vector<std::size_t> part(table.source.size());
  std::vector<std::vector<Segment>> segments(used.size());
  if (!options.segment.empty()) {
    const RecordTable::FieldColumn column = std::move(table.fields.back());
    table.fields.pop_back();
    for (std::size_t i = 0; i < part.size(); ++i) {
      std::vector<Segment>& of_video = segments[place[table.source[i]]];
      part[i] = of_video.size();
      std::memcpy(of_video.emplace_back().data(), column.values.data() + i * sizeof(Segment), sizeof(Segment));
    }
  }
  std::vector<Video> videos(used.size());
  run_parallel({used.size(), context.threads, context.progress},
               [&](std::size_t i) { videos[i] = look_through(paths[i], options, segments[i]); });
  log(options, paths, videos, context.options.path, draft.skipped);

  table.rule = clip_rule(options);
  table.are_windows = options.every > 0 || !options.segment.empty();
  table.stamps.resize(sources);
  for (std::uint32_t source = 0; source < sources; ++source) {
    const Video* const video = place[source] == SIZE_MAX ? nullptr : &videos[place[source]];
    if (video != nullptr && video->stamp) table.stamps[source] = *video->stamp;
    const std::span<const std::byte> bytes = video == nullptr ? std::span<const std::byte>() : video->table;
    table.videos.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::vector<std::size_t> rows;
  std::map<RecordTable::Kind, std::uint16_t> numbers;
  const std::vector<std::uint32_t> source_of = table.source;
  table.kinds = {{.encoding = Encoding::video}};
  for (std::size_t i = 0; i < source_of.size(); ++i) {
    const Video& video = videos[place[source_of[i]]];
    if (video.is_too_long || !video.problem.empty() || video.parts.empty()) continue;
    const Clips& clips = video.parts[part[i]].clips;
    const bool is_turned = video.facts.orientation >= 5;
    const RecordTable::Kind kind{.encoding = Encoding::video,
                                 .width = is_turned ? video.facts.height : video.facts.width,
                                 .height = is_turned ? video.facts.width : video.facts.height};
    rows.insert(rows.end(), clips.size(), i);
    table.clip.insert(table.clip.end(), clips.begin(), clips.end());
    table.kind.resize(rows.size(), number_of_kind(kind, table.kinds, numbers).value_or(0));
  }
  if (rows.empty()) throw no_clip(context.options, videos, draft);
  take_rows(table.source, rows);
  take_rows(table.label, rows);
  for (RecordTable::FieldColumn& field : table.fields) take_rows(field, rows);
}

}  // namespace forebay::data

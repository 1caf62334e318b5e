// Opens datasets: detects the format or takes the given one, and builds the index; or loads a saved
// index and compares it with the options and the data.
//
// open_with_remark() proceeds as follows. Without dataset.index, the index is built and stays in
// memory. With it, a file that exists is loaded; its origin is compared with the options, and then
// its record of the data with the data. Any difference is an error, never a silent rebuild, because
// runs that share the file would otherwise see different samples. A file that is missing is built,
// saved and read back.
//
// All of it runs on the caller's thread. In a job rank 0 comes here first, and the others open the
// same file only if it is the one that rank 0 opened (job/agreed_start.cpp). Threads are used
// within calls to scan, parallel and the formats, and end before these return.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <forebay/error.hpp>
#include <optional>
#include <system_error>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "container_bytes.hpp"
#include "fields.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "index_image.hpp"
#include "list.hpp"
#include "parallel.hpp"
#include "saved_index.hpp"
#include "source_files.hpp"
#include "store/url.hpp"
#include "table_fields.hpp"
#include "video_samples.hpp"
#include "zip_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::data {
namespace {

// Throws ConfigError for a file that is not what its name says, whatever format it is read as. This
// comes before any format looks at the file: one compressed by xz, or the HTML page of a failed
// download, would otherwise end in the message of whichever format tried it last. A ZIP archive is
// read only by the format npy, as .npz.
void refuse_foreign_file(PathContents& contents) {
  if (contents.is_folder()) return;
  std::string nature = nature_of(contents.head());
  const bool is_unread_zip = contents.options().format != "npy" && starts_as_zip(contents.head()) &&
                             (contents.is_pattern() || !formats::npy.detect(contents));
  const std::string name = lower_case(contents.root());
  const auto is_of = [&](const auto& endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
  };
  constexpr std::array<std::string_view, 3> kSheets{".xlsx", ".xls", ".ods"};
  constexpr std::array<std::string_view, 5> kTexts{".csv.gz", ".tsv.gz", ".txt.gz", ".json.gz", ".jsonl.gz"};
  if (is_unread_zip) nature = "a ZIP archive whose first member is no .npy; unpack it";
  if (is_unread_zip && name.ends_with(".npz")) nature = "an .npz archive, of which one is read at a time; name one";
  if (is_of(kSheets)) nature = "a spreadsheet; save it as .csv";
  if (starts_as_gzip(contents.head()) && is_of(kTexts)) nature = "a text compressed by gzip; unpack it";
  if (nature.empty() && contents.root().ends_with(".jsonl")) {
    nature = "JSON lines; make a table of them (pandas: read_json(name, lines=True).to_csv(\"x.csv\", index=False))";
  }
  if (nature.empty()) return;
  const std::string file = contents.is_pattern() ? contents.files().front() : "the file";
  throw path_error(contents.options(), file + " is " + nature);
}

// Names the formats that could have read the file, which excludes those for folders only and, with
// clips, those without videos.
ConfigError unrecognised_file(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  if (contents.head().empty()) return path_error(options, "the file is empty");
  const bool are_clips = options.clip.frames > 0;
  const bool is_video = is_video_name(options.path);
  if (is_video || (is_image_name(options.path) && !options.path.ends_with(".npy"))) {
    return path_error(options, std::string(is_video ? "is a video" : "is an image") +
                                   ", and no list of them: name a folder of class folders, or a text file with a path "
                                   "on each line" +
                                   (is_video && !are_clips ? "; clip.frames makes samples of videos" : ""));
  }
  std::string wanted;
  for (const auto& [name, help, format] : kFormats) {
    if (format->path != Format::Path::folder && (format->reads_videos || !are_clips))
      wanted.append(wanted.empty() ? "neither " : " nor ").append(format->needs);
  }
  return path_error(options,
                    "the file is " + wanted + (are_clips ? ": clip.frames is for videos that such a file names" : ""));
}

// ". a.tar.xz is compressed by xz; ..." for the first such file of a few. Chosen: at most 16 files
// are opened, which is enough for a folder of archives and quick on any store.
std::string first_foreign_file(const std::string& root, const Scan& tree) {
  constexpr std::size_t kLookedAt = 16;
  for (std::size_t i = 0; i < std::min(kLookedAt, tree.others.size()); ++i) {
    const std::string nature = nature_of_file(join_path(root, tree.others[i]));
    if (!nature.empty()) return ". " + printable(tree.others[i]) + " is " + nature;
  }
  return {};
}

// Below a prefix of a store; nothing if there is no more to say than of a folder.
std::optional<ConfigError> unrecognised_prefix(PathContents& contents) {
  const Scan& tree = contents.tree();
  if (tree.images.empty() && tree.annotations.empty() && tree.others.empty())
    return path_error(contents.options(), "no object lies there; is the name right?");
  if (tree.images.empty()) return std::nullopt;
  return path_error(contents.options(), "found " + counted(tree.images.size(), "image") + " and " +
                                            counted(tree.annotations.size(), "XML file") +
                                            "; from a store, images are read from class folders and lists alone; "
                                            "`forebay pack` makes a packed dataset of what lies otherwise");
}

// The Python version of CIFAR has a hint of its own: its files have no extension, so the number of
// files alone would say nothing.
ConfigError unrecognised_folder(PathContents& contents) {
  const Scan& tree = contents.tree();
  std::string files;
  for (const auto& [name, help, format] : kFormats) {
    if (format->path == Format::Path::either) files.append(files.empty() ? " and no " : " or ").append(name);
  }
  const bool has_videos = std::ranges::any_of(tree.others, is_video_name);
  const bool is_python_cifar = std::ranges::any_of(
      tree.others, [](std::string_view path) { return path == "batches.meta" || base_name(path) == "data_batch_1"; });
  return path_error(contents.options(), "found " + std::to_string(tree.others.size()) + " files and " +
                                            std::to_string(tree.annotations.size()) + " XML files, but no " +
                                            std::string(sample_noun(contents.options().clip)) + " (" +
                                            std::string(sample_endings(contents.options().clip)) + ")" + files +
                                            " file" +
                                            (has_videos        ? "; of its videos clip.frames makes samples"
                                             : is_python_cifar ? "; it is the Python version of CIFAR: download the "
                                                                 "binary version"
                                                               : first_foreign_file(contents.root(), tree)));
}

// The names of the formats that have a property.
std::string formats_with(bool Format::*property) {
  std::vector<NamedFormat> all(kFormats.begin(), kFormats.end());
  std::erase_if(all, [&](const NamedFormat& known) { return !(known.format->*property); });
  return joined(all, ", ", &NamedFormat::name);
}

ConfigError reads_no_urls(PathContents& contents, std::string_view format) {
  return path_error(contents.options(), "format \"" + std::string(format) +
                                            "\" is read from local files alone; of URLs " +
                                            formats_with(&Format::reads_urls) +
                                            " are; `forebay pack` makes a packed dataset of any format");
}

// Asks the formats from last to first: those at the end of kFormats recognise their files by name
// or first bytes, whereas those at the beginning take any folder of images or any text.
const NamedFormat& detect_format(PathContents& contents) {
  const bool is_remote = store::is_url(contents.root());
  const auto takes_it = [&](const NamedFormat& known) {
    if (contents.options().clip.frames > 0 && !known.format->reads_videos) return false;
    // A folder of a store is no tree of files that the others could look at.
    const bool may_look = known.format->reads_urls || !is_remote || !contents.is_folder();
    return may_look && (known.format->takes_patterns || !contents.is_pattern()) && known.format->detect(contents);
  };
  const auto found = std::find_if(kFormats.rbegin(), kFormats.rend(), takes_it);
  if (found != kFormats.rend() && is_remote && !found->format->reads_urls) throw reads_no_urls(contents, found->name);
  if (found != kFormats.rend()) return *found;
  if (!contents.is_folder()) throw unrecognised_file(contents);
  if (is_remote) {
    if (const auto error = unrecognised_prefix(contents)) throw ConfigError(*error);
  }
  throw unrecognised_folder(contents);
}

// If the options name a format, the path must be what it reads; otherwise its builder would fail
// with a message about the contents.
const NamedFormat& format_of(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  if (options.format == "auto") return detect_format(contents);
  const auto known = std::ranges::find(kFormats, options.format, &NamedFormat::name);
  if (known == kFormats.end()) {
    throw ConfigError("dataset.format = \"" + options.format + "\": known are " + joined(kFormatChoices, ", "));
  }
  if (contents.is_pattern() && !known->format->takes_patterns) {
    throw path_error(options, "stands for " + std::to_string(contents.files().size()) + " files, but format = \"" +
                                  options.format + "\" reads one");
  }
  if (store::is_url(contents.root()) && !known->format->reads_urls) throw reads_no_urls(contents, known->name);
  const auto wanted = contents.is_folder() ? Format::Path::folder : Format::Path::file;
  if (known->format->path == Format::Path::either || known->format->path == wanted) return *known;
  throw path_error(options, std::string(contents.is_folder() ? "is a folder" : "is a file") + ", but format = \"" +
                                options.format + "\" needs " + std::string(known->format->needs));
}

ConfigError no_videos(std::string_view format) {
  return ConfigError{"clip.frames: the format \"" + std::string(format) + "\" has no videos; it is for " +
                     formats_with(&Format::reads_videos)};
}

ConfigError no_columns(const DatasetOptions& options, std::string_view format) {
  return ConfigError{"clip.segment = \"" + printable(options.clip.segment) +
                     "\" names columns of a table, and dataset.path is read as the format \"" + std::string(format) +
                     "\"; it has to be a .csv or .tsv file with a row of names"};
}

ConfigError no_objects(std::string_view format) {
  return ConfigError{R"(dataset.samples = "images": the format ")" + std::string(format) +
                     "\" has no objects of images, and its samples are what they are; leave the key out (it is for " +
                     formats_with(&Format::has_objects) + ")"};
}

ConfigError no_labels(std::string_view format) {
  return ConfigError{"dataset.labels: the format \"" + std::string(format) +
                     "\" says itself which labels there are; leave the key out (it is for " +
                     formats_with(&Format::takes_labels) + ")"};
}

// Warns of labels from which a run would learn nothing, or the wrong thing. If samples have other
// targets, missing labels are only a note, which `forebay index` shows, unless there seem to be
// labels, or the user said where they are.
void note_doubtful_labels(const DatasetOptions& options, IndexDraft& draft, const std::string& root) {
  const auto& labels = draft.table.label;
  const auto is_none = [](std::int32_t label) { return label < 0; };
  // Whether labels are the only target, or one that was asked for.
  const bool are_all =
      find_field(options, "label") != nullptr || (options.samples == SampleUnit::objects && draft.table.fields.empty());
  if (std::ranges::all_of(labels, is_none)) {
    const auto& [why, seem_there] = draft.skipped.missing_labels();
    if (!seem_there && !are_all && why.empty()) return;
    const std::string reason = "no sample has a label, all are -1: " +
                               (why.empty() ? "docs/data.md says where each format has its labels" : why);
    seem_there || are_all ? draft.skipped.add_warning(root, reason) : draft.skipped.add_note(root, reason);
    return;
  }
  // Whoever writes the labels -1 and 1 means two classes; here they mean no class and class 1.
  const bool are_signed = std::ranges::any_of(labels, is_none) &&
                          std::ranges::all_of(labels, [](std::int32_t label) { return label == 1 || label == -1; });
  if (are_all && are_signed && draft.table.classes == std::vector<std::string>{"0", "1"}) {
    draft.skipped.add_warning(root, "all labels are -1 or 1, and -1 means no class; number two classes 0 and 1");
  }
}

// How the index differs from what the options request; "" if it does not. The order is that in
// which a user would notice. The hash comes last, because its text can only say that something
// differs.
std::string difference(const IndexOrigin& built, const DatasetOptions& options) {
  if (options.format != "auto" && options.format != built.format) {
    return "format " + built.format + ", not " + options.format;
  }
  const IndexOrigin wanted = origin_of(options, built.format);
  if (wanted.path != built.path) return "path " + built.path + ", not " + wanted.path;
  if (wanted.labels != built.labels) return built.labels.empty() ? "no labels file" : "labels " + built.labels;
  if (wanted.classes != built.classes) return "other classes";
  if (wanted.difficult != built.difficult) return std::string("difficult = ") + (built.difficult ? "true" : "false");
  if (wanted.samples != built.samples) {
    return built.samples == SampleUnit::images ? "samples = \"images\"" : "samples = \"objects\"";
  }
  if (wanted.fields != built.fields) return "other sections [fields.NAME]";
  if (wanted.clip != built.clip) return built.clip.frames == 0 ? "images, not clips" : clips_text(built.clip);
  if (wanted.source_hash != built.source_hash) {
    return "other contents of " + std::string(find_format(built.format)->hashed);
  }
  return {};
}

}  // namespace

const Format* find_format(std::string_view name) noexcept {
  const auto found = std::ranges::find(kFormats, name, &NamedFormat::name);
  return found == kFormats.end() ? nullptr : found->format;
}

// The origin is made from the options as they were given, so that the same options match the saved
// index later.
std::unique_ptr<Dataset> build_dataset_with(const BuildContext& asked) {
  const DatasetOptions options = with_segments(asked.options);
  const BuildContext context{.options = options, .progress = asked.progress, .threads = asked.threads};
  const ClipOptions& clip = options.clip;
  if (clip.frames > 0) require_videos();
  PathContents contents(context);
  refuse_foreign_file(contents);
  const auto& [name, help, format] = format_of(contents);
  if (clip.frames > 0 && !format->reads_videos) throw no_videos(name);
  if (!clip.segment.empty() && format != &formats::table) throw no_columns(options, name);
  if (options.samples == SampleUnit::images && !format->has_objects) throw no_objects(name);
  // With a packed dataset the key may stay from before it was packed.
  if (!options.labels.empty() && !format->takes_labels && !format->keeps_names) throw no_labels(name);
  IndexDraft draft = format->build(contents);
  complete_fields(options, name, draft);
  if (clip.frames > 0) {
    make_clips(context, draft);
    const std::string unused = clip.segment.empty() ? unused_segments(columns_of_table(contents)) : "";
    if (!unused.empty()) draft.skipped.add_warning(contents.root(), unused);
  }
  const std::string splits = remark_on_split_column(columns_of_table(contents), options.fields);
  if (!splits.empty()) draft.skipped.add_warning(contents.root(), splits);
  note_doubtful_labels(asked.options, draft, contents.root());
  note_missing_values(asked.options, *format, draft, contents.root());
  IndexRecord record;
  record.origin = origin_of(asked.options, std::string(name));
  record.root = std::move(draft.root);
  record.skipped = draft.skipped.take(contents.root());
  record.counts = draft.counts;
  return make_dataset(record, std::move(draft.table), draft.state.serialize());
}

}  // namespace forebay::data

namespace forebay {

std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  return data::build_dataset_with({.options = options, .progress = progress, .threads = data::index_threads()});
}

// Covers the meaning of ids, not times or paths: ranks compare it before a run, and they may have
// different copies of the data. A program's own dataset is identified by its size, its classes and
// its serialize(); if that gives an index, only its content counts, as for other datasets.
std::uint64_t fingerprint(const Dataset& dataset) {
  if (const data::IndexImage* image = data::image_of(dataset)) return image->fingerprint();
  const std::vector<std::byte> bytes = dataset.serialize();
  if (data::begins_as_index(bytes)) {
    const auto header = std::span(bytes).first(std::min(bytes.size(), data::kIndexHeader));
    return data::read_index_layout(header, bytes.size(), "the index of a dataset").fingerprint;
  }
  std::string more = std::to_string(dataset.size());
  for (const std::string& name : dataset.classes()) more.append(1, '\0').append(name);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), XXH3_64bits(more.data(), more.size()));
}

std::unique_ptr<Dataset> restore_dataset(std::span<const std::byte> bytes, std::string_view origin) {
  return data::restore_index(
      data::index_in_memory(data::owned_bytes({bytes.begin(), bytes.end()}), std::string(origin)));
}

// Written to another file and renamed, so that a process that has the old index open keeps reading
// that (index_image.cpp).
void save_index(const Dataset& dataset, const std::string& file) {
  try {
    if (const std::string problem = data::problem_of_replacing(file); !problem.empty()) throw Error(problem);
    replace_file(replaceable(file), dataset.serialize(), ".");
  } catch (const Error& error) {
    throw Error("index " + file + ": " + error.what());
  }
}

std::unique_ptr<Dataset> load_index(const std::string& file) {
  return data::restore_index(data::open_index_file(file));
}

}  // namespace forebay

namespace forebay::data {

// Sources are files of records; the state has folders and annotations. Each format records what it
// depends on.
DataComparison compare_with_data(const Dataset& dataset, const IndexProgress& progress) {
  const IndexImage* image = image_of(dataset);
  if (image == nullptr) return {};
  const auto began = std::chrono::steady_clock::now();
  const SourceComparison sources = compare_sources(dataset, index_threads(), progress);
  const auto [folders, files, by_contents, difference] =
      DataState(image->state(), image->origin()).compare(image->record().root, index_threads(), progress);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  std::string what;
  const auto add = [&](std::uint64_t count, const char* one) {
    if (count == 0) return;
    what.append(what.empty() ? "" : " and ").append(std::to_string(count)).append(" ").append(one);
    if (count != 1) what += "s";
  };
  add(folders, "folder");
  add(files, "annotation");
  add(sources.files, "file");
  if (what.empty()) return {};
  std::array<char, 32> seconds{};
  (void)std::snprintf(seconds.data(), seconds.size(), " in %.2f s", taken.count());
  what += seconds.data();
  if (by_contents > 0)
    what += ", " + std::to_string(by_contents) + " of them by what they hold, because their times differ or were new";
  return {std::move(what), sources.difference.empty() ? difference : sources.difference, by_contents > 0};
}

// For `forebay index --check`, which has no options: what can be compared is taken from the index
// itself.
DataComparison compare_all_with_data(const Dataset& dataset, const IndexProgress& progress) {
  const IndexImage* image = image_of(dataset);
  std::error_code unknown;
  const bool is_remote = image != nullptr && store::is_url(image->record().root);
  if (image != nullptr && !is_remote && !std::filesystem::exists(image->record().root, unknown)) {
    return {.done = "not with its data: there is no " + printable(image->record().root)};
  }
  DataComparison compared = compare_with_data(dataset, progress);
  if (image == nullptr || !compared.difference.empty()) return compared;
  const IndexOrigin& built = image->record().origin;
  const Format* format = find_format(built.format);
  // Which arrays are hashed depends on the field sections, and an index only describes these for
  // comparison.
  if (format == nullptr || format->hash == nullptr || (format == &formats::npy && !built.fields.empty())) {
    return compared;
  }
  DatasetOptions options;
  options.path = built.path;
  options.labels = built.labels;
  options.classes = built.classes;
  compared.done += std::string(compared.done.empty() ? "" : ", and ") + "the hash of its files";
  if (format->hash(options) != built.source_hash)
    compared.difference = "other contents of " + std::string(format->hashed);
  return compared;
}

}  // namespace forebay::data

namespace forebay {

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  return data::open_with_remark(options, progress).dataset;
}

}  // namespace forebay

namespace forebay::data {

// exists() is false both for a missing file and on an error; `unknown` tells the two apart.
OpenedDataset open_with_remark(const DatasetOptions& options, const IndexProgress& progress) {
  const std::string& file = options.index;
  if (file.empty()) return {build_dataset(options, progress), {}};
  // A new index is read back from its file, so that all ranks of a node share a large one. A file
  // that cannot be inspected does not count as missing: opening it will say why.
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown) && !unknown) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (!folder.empty() && !std::filesystem::exists(folder, unknown)) {
      throw ConfigError("dataset.index = \"" + printable(file) + "\": there is no folder " +
                        printable(folder.native()));
    }
    save_index(*build_dataset(options, progress), file);
    return {load_index(file), {}};
  }
  auto dataset = load_index(file);
  if (const auto what = difference(image_of(*dataset)->record().origin, options); !what.empty()) {
    throw ConfigError("dataset.index = \"" + file + "\" was built for " + what +
                      "; delete it to have it built again, name another file, or correct what differs");
  }
  DataComparison compared = compare_with_data(*dataset, progress);
  if (!compared.difference.empty()) {
    throw ConfigError("dataset.index = \"" + file + "\" was built from other data: " + compared.difference +
                      "; delete it to have it built again, or name another file");
  }
  if (!compared.done.empty()) compared.done = "index " + file + ": as its data, compared " + compared.done;
  return {std::move(dataset), {std::move(compared.done), compared.times_differ}};
}

}  // namespace forebay::data

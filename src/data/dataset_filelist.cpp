// A text file with a path per line, with or without a label: the simplest format, and the one that
// takes any text file.
//
// First the list is read. If it is one of VOC's splits (names without extension, split_list.cpp),
// its names become paths. Then labels of a second file are joined. If there are no labels at all,
// VOC annotations are looked for near the images. Otherwise labels are class numbers or names,
// which is decided from all of them together (LabelCensus). Everything runs on the calling thread
// except the parsing of annotations.
//
// Whether listed files exist is not checked here: on a network file system that would take minutes
// for millions. Missing ones become errors of their samples; `forebay index` looks for them.

#include <algorithm>
#include <deque>
#include <filesystem>
#include <forebay/error.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "class_text.hpp"
#include "formats.hpp"
#include "list.hpp"
#include "store/files.hpp"
#include "store/requests.hpp"

namespace forebay::data {
namespace {

namespace fs = std::filesystem;

// Chosen: the list is in memory while the index is built.
constexpr std::size_t kLargestList = std::size_t{4} << 30U;
// How many levels above an image to look for a folder Annotations. Chosen: enough for ILSVRC's
// Data/CLS-LOC/train/n01440764, whose annotations begin beside Data.
constexpr int kLevelsUp = 4;

// Images with their labels: `first` is the path, `second` the label, "" if there is none.
using Entries = std::vector<ListRecord>;

std::vector<std::byte> load_text(const std::string& path, const char* key) {
  try {
    return store::load_file(path, kLargestList);
  } catch (const SampleError& error) {
    throw ConfigError(std::string(key) + " = \"" + path + "\": " + error.what());
  }
}

// A list file. Its records are views of `text` and of `quoted`. They would dangle if the list were
// copied; when it is moved, a vector and a deque keep their elements in place.
struct List {
  std::vector<std::byte> text;
  std::deque<std::string> quoted;
  std::vector<ListRecord> records;
};

List load_list(const std::string& path, const char* key, const IsFile& is_file) {
  List list;
  list.text = load_text(path, key);
  list.records =
      parse_list({reinterpret_cast<const char*>(list.text.data()), list.text.size()}, path, list.quoted, is_file);
  return list;
}

std::string at_line(const std::string& file, std::size_t line) { return file + ":" + std::to_string(line); }

// Joins the labels of a separate file: by path if any of its lines has two fields, else line by
// line. Paths are normalized, because the two files may name the same images in different ways.
// Line by line, the counts must match, because labels that slip by one line are wrong for all
// images after it.
void join_labels(Entries& entries, const Entries& records, const DatasetOptions& options, SkipLog& skipped) {
  const std::string& file = options.labels;
  const auto pairs =
      std::count_if(records.begin(), records.end(), [](const auto& record) { return record.has_second; });
  if (pairs == 0) {
    if (records.size() != entries.size()) {
      throw ConfigError("dataset.labels = \"" + file + "\": " + std::to_string(records.size()) + " labels for the " +
                        std::to_string(entries.size()) + " images of \"" + options.path +
                        "\"; give one label per line, or path,label");
    }
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i].second = without_blanks(records[i].first);
    return;
  }
  const auto normal = [](std::string_view path) { return fs::path(path).lexically_normal().string(); };
  std::unordered_map<std::string, std::string_view> labels;
  for (const auto& record : records) {
    const std::string here = at_line(file, record.line);
    if (!record.has_second) throw ConfigError(here + ": no label; other lines are path,label");
    const auto [at, is_new] = labels.emplace(normal(record.first), record.second);
    if (!is_new && at->second != record.second) {
      throw ConfigError(here + ": \"" + std::string(record.first) + "\" has two labels, \"" + std::string(at->second) +
                        "\" and \"" + std::string(record.second) + "\"");
    }
  }
  std::erase_if(entries, [&](ListRecord& entry) {
    const auto found = labels.find(normal(entry.first));
    if (found == labels.end()) {
      skipped.add_bad(std::string(entry.first), "no label in " + file);
      return true;
    }
    entry.second = found->second;
    return false;
  });
}

// A relative name with a percent sign is that of a file, or is encoded as in a URL. The server has one of them, and
// only if it has both somebody must say which is meant. Looks at a few, since lists are written by one program.
void refuse_two_meanings(const std::string& root, const Entries& entries, const std::string& list) {
  int looked_at = 0;
  for (const ListRecord& each : entries) {
    constexpr int kMostLooks = 8;
    if (each.first.find('%') == std::string_view::npos || store::is_absolute(each.first)) continue;
    const std::string url = join_path(root, each.first);
    if (read_patiently(url, [&] { return store::has_two_meanings(url); })) {
      throw ConfigError(at_line(list, each.line) + ": \"" + std::string(each.first) +
                        "\" is a file of that very name, or one whose name is encoded as in a URL, and the server has "
                        "both: write whole URLs, which are encoded");
    }
    if (++looked_at == kMostLooks) return;
  }
}

bool has_labels(const Entries& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const auto& entry) { return !entry.second.empty(); });
}

// The images, and the file of labels if there is one.
struct Lists {
  List images;
  List labels;
};

Lists load_lists(const BuildContext& context, std::string& root, SkipLog& skipped) {
  const DatasetOptions& options = context.options;
  Lists lists;
  const fs::path folder = fs::path(options.path).parent_path();
  const auto is_there = [&](std::string_view name) {
    std::error_code unknown;
    return fs::is_regular_file(folder / name, unknown);
  };
  lists.images = load_list(options.path, "dataset.path", is_there);
  for (const ListRecord& each : lists.images.records) {
    // Refuses URLs with a query or a fragment: a secret would get into the index, and "#" cuts a
    // name.
    if (store::is_url(each.first)) (void)store::object_name(std::string(each.first));
    if (store::is_url(root) && !store::is_absolute(each.first)) (void)store::object_name(join_path(root, each.first));
  }
  if (store::is_url(root)) refuse_two_meanings(root, lists.images.records, options.path);
  const std::string split_root = resolve_split_list(context, lists.images.records, lists.images.quoted, skipped);
  if (!split_root.empty()) root = split_root;
  if (!options.labels.empty()) {
    if (has_labels(lists.images.records)) {
      throw ConfigError("dataset.labels = \"" + options.labels + "\": the list \"" + options.path +
                        "\" has labels of its own; leave one of them out");
    }
    const auto is_listed = [&](std::string_view name) {
      return std::ranges::find(lists.images.records, name, &ListRecord::first) != lists.images.records.end();
    };
    lists.labels = load_list(options.labels, "dataset.labels", is_listed);
    join_labels(lists.images.records, lists.labels.records, options, skipped);
  }
  return lists;
}

// Whether the labels are class numbers. Throws ConfigError for labels that are not classes, without
// a line number if they are in the other file, whose lines were not kept.
bool are_numbers(const Entries& entries, const DatasetOptions& options) {
  LabelCensus census(options.classes);
  const bool are_in_list = options.labels.empty();
  for (const auto& entry : entries) census.add(entry.second, are_in_list ? entry.line : 0);
  return census.are_numbers(are_in_list ? options.path : options.labels);
}

// A text that is not a class number becomes `limit`, which the check below refuses with the right
// message.
void add_numbered(const BuildContext& context, const Entries& entries, RecordTable& table, SkipLog& skipped) {
  const auto& given = context.options.classes;
  const std::int64_t limit = given.empty() ? kMostClassNumbers : static_cast<std::int64_t>(given.size());
  std::int64_t classes = 0;
  for (const auto& [line, path, text, has_second] : entries) {
    const auto label = text.empty() ? -1 : class_number_in(text).value_or(limit);
    if (label >= limit) {
      skipped.add_bad(at_line(context.options.path, line), problem_of_class(text, limit));
      continue;
    }
    classes = std::max(classes, label + 1);
    table.add(table.add_source(path), static_cast<std::int32_t>(label));
  }
  table.classes = given.empty() ? numbered_classes(classes) : ClassList(given, {}).names();
}

// Equal neighbours are added once, because most lists are sorted by class.
void add_named(const BuildContext& context, const Entries& entries, RecordTable& table, SkipLog& skipped) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    if (!entry.second.empty() && (names.empty() || names.back() != entry.second)) names.emplace_back(entry.second);
  }
  const ClassList classes(context.options.classes, std::move(names));
  for (const auto& [line, path, text, has_second] : entries) {
    const std::int32_t label = text.empty() ? -1 : classes.number_of(text);
    if (label < 0 && !text.empty()) {
      skipped.add_bad(at_line(context.options.path, line),
                      "class \"" + std::string(text) + "\" is not in dataset.classes");
      continue;
    }
    table.add(table.add_source(path), label);
  }
  table.classes = classes.names();
}

// Lists the folders that may hold annotations of the images in a folder, each once; all paths are
// relative to "/". For images in a/b/c these are a/b/c itself and, for each folder Annotations in
// a/b/c, a/b, a and so on, what lies below it at the same path as the images, with and without the
// first component of that path: VOC/JPEGImages/x.jpg has VOC/Annotations/x.xml.
class AnnotationSearch {
 public:
  void add_folder_of_images(const std::string& folder) {
    if (!image_folders_.insert(folder).second) return;
    list(folder);
    std::string_view above = folder;
    for (int level = 0; level <= kLevelsUp; ++level) {
      const std::string_view below = std::string_view(folder).substr(std::min(folder.size(), above.size() + 1));
      for (const auto& annotations : annotation_folders(std::string(above))) {
        list(join_path(annotations, below));
        const auto slash = below.find('/');
        list(join_path(annotations, slash == std::string_view::npos ? "" : below.substr(slash + 1)));
      }
      if (above.empty()) break;
      above = parent_folder(above);
    }
  }
  // The folders that were listed, as they were then.
  [[nodiscard]] const Scan& looked_at() const noexcept { return looked_at_; }
  [[nodiscard]] PathList take() {
    annotations_.sort();
    return std::move(annotations_);
  }

 private:
  void list(std::string folder) {
    while (folder.ends_with('/')) folder.pop_back();
    if (!listed_.insert(folder).second) return;
    Scan scan = scan_folder("/", folder);
    remember(folder, scan);
    annotations_.append(std::move(scan.annotations));
  }
  const std::vector<std::string>& annotation_folders(const std::string& folder) {
    const auto known = annotation_folders_.find(folder);
    if (known != annotation_folders_.end()) return known->second;
    return remember(folder, scan_folder("/", folder));
  }
  const std::vector<std::string>& remember(const std::string& folder, const Scan& scan) {
    looked_at_.listed.push_back(scan.listed.front());
    auto& found = annotation_folders_[folder];
    found.clear();
    for (const auto path : scan.folders) {
      if (is_annotations_folder(base_name(path))) found.emplace_back(path);
    }
    return found;
  }

  std::unordered_set<std::string> image_folders_;
  std::unordered_set<std::string> listed_;
  std::unordered_map<std::string, std::vector<std::string>> annotation_folders_;
  PathList annotations_;
  Scan looked_at_;
};

// The list's images as paths relative to "/", where annotations are looked up. They have no leading
// '/', because join_path() adds it again.
PathList places_of(const std::string& root, const Entries& entries) {
  const fs::path folder = root;
  PathList places;
  for (const auto& entry : entries) {
    const std::string place = (folder / entry.first).lexically_normal().string();
    places.add(std::string_view(place).substr(std::min(place.size(), place.find_first_not_of('/'))));
  }
  return places;
}

// False if no image has an annotation. Folders that were searched are recorded even if nothing was
// found, because an annotation may appear there later.
bool add_annotated(const BuildContext& context, const Entries& entries, IndexDraft& draft) {
  const std::string& root = draft.root;
  std::vector<std::string_view> paths;
  paths.reserve(entries.size());
  for (const auto& entry : entries) paths.push_back(entry.first);
  const PathList places = places_of(root, entries);
  AnnotationSearch search;
  for (const auto place : places) search.add_folder_of_images(std::string(parent_folder(place)));

  draft.state.add_all("/", search.looked_at(), DataState::Names::annotations);
  const PathList annotations = search.take();
  const AnnotationLookup lookup(annotations.view());
  AnnotatedFiles files;
  files.root = "/";
  files.annotations = annotations.view();
  files.image_root = root;
  files.images = paths;
  files.wanted.resize(annotations.size());
  bool any = false;
  for (const auto place : places) {
    const std::size_t found = lookup.find(place);
    files.annotation_of.push_back(found);
    if (found == AnnotationLookup::kNone) continue;
    files.wanted[found] = true;
    any = true;
  }
  if (any) add_annotated_files(context, files, draft);
  return any;
}

// Takes any text: no NUL byte, and not a JPEG file, whose first 4 KiB may have none. Formats that
// recognise their own files are asked before this one.
bool is_list(PathContents& contents) {
  if (contents.is_folder()) return false;
  const auto head = contents.head();
  return !head.empty() && std::ranges::find(head, std::byte{0}) == head.end() &&
         (head[0] != std::byte{0xFF} || head.size() < 2 || head[1] != std::byte{0xD8});
}

// The index holds what the lists say, so any change to them makes it stale.
std::uint64_t hash_lists(const DatasetOptions& options) {
  const std::uint64_t hash = hash_file(options.path, "dataset.path", 0);
  return options.labels.empty() ? hash : hash_file(options.labels, "dataset.labels", hash);
}

IndexDraft build_filelist(PathContents& contents) {
  const BuildContext& context = contents.context();
  const DatasetOptions& options = context.options;
  IndexDraft draft;
  auto& [root, table, counts, skipped, state] = draft;
  root = fs::path(absolute_path(options.path)).parent_path().string();

  Lists lists = load_lists(context, root, skipped);
  const Entries& entries = lists.images.records;
  counts.images = entries.size();
  const bool numbers = are_numbers(entries, options);
  const bool annotated = !has_labels(entries) && options.clip.frames == 0 && !store::is_url(root) &&
                         add_annotated(context, entries, draft);
  // Only annotations provide boxes.
  const bool has_targets = !has_labels(entries) && std::ranges::any_of(options.fields, [](const FieldOptions& field) {
    return field.kind != FieldKind::boxes;
  });
  if (!annotated && !has_targets && options.samples == SampleUnit::images) {
    throw ConfigError(
        R"(dataset.samples = "images": the list ")" + options.path + "\" " +
        (has_labels(entries) ? "has labels, a class for each image" : "names no image with a VOC annotation") +
        ", so each of its samples is an image as it is; leave the key out");
  }
  if (!annotated && numbers) {
    add_numbered(context, entries, table, skipped);
  } else if (!annotated) {
    add_named(context, entries, table, skipped);
  }
  if (table.source.empty()) {
    throw path_error(options, "the list names " + std::to_string(entries.size()) + " images, none usable" +
                                  skipped.first_bad() +
                                  "; a list has one path[,label] per line, relative to the folder of the list");
  }
  return draft;
}

}  // namespace

const Format formats::filelist{.needs = "a text file with one path[,label] per line",
                               .path = Format::Path::file,
                               .detect = is_list,
                               .build = build_filelist,
                               .hash = hash_lists,
                               .hashed = "the list",
                               .takes_labels = true,
                               .has_objects = true,
                               .finds_files = false,
                               .reads_urls = true,
                               .reads_videos = true};

}  // namespace forebay::data

// A folder of images per class: the topmost folder in the path of an image is its class. Deeper
// folders do not matter.
//
// The tree has been listed already, to detect the format (build.cpp); building the index is one
// pass over the sorted list of images on the calling thread. Classes are the top folders in
// bytewise order, including empty ones, as in torchvision's ImageFolder; dataset.classes selects
// and reorders them.
//
// Images that lie in no folder can be served without classes if field sections name other targets.

#include <algorithm>
#include <forebay/error.hpp>
#include <iterator>
#include <set>

#include "base/text.hpp"
#include "build.hpp"
#include "folder_roles.hpp"
#include "formats.hpp"
#include "video_samples.hpp"

namespace forebay::data {
namespace {

bool is_top_level(std::string_view path) { return path.find('/') == std::string_view::npos; }

// The top folders that have other files but no images. A folder with only unusable images, such as
// broken links, counts as one with images.
std::set<std::string_view> folders_of_others(const Scan& scan) {
  std::set<std::string_view> folders;
  for (const auto* files : {&scan.others, &scan.annotations}) {
    for (const auto path : *files) {
      if (!is_top_level(path)) folders.insert(first_component(path));
    }
  }
  for (const auto folder : folders_with_images(scan, "")) folders.erase(folder);
  for (const auto& entry : scan.unusable) {
    if (is_image_name(entry.path)) folders.erase(first_component(entry.path));
  }
  return folders;
}

// The top folders that are classes: without link loops, without apparent mistakes such as an empty
// folder "x.jpg", and without folders of other files, unless `given` names them. An empty folder is
// a class, because other splits may have images of it.
std::vector<std::string> class_folders(const Scan& scan, const std::vector<std::string>& given) {
  const std::set<std::string_view> others = folders_of_others(scan);
  std::vector<std::string> folders;
  for (const auto& folder : scan.folders) {
    const auto is_it = [path = folder](const Skipped& entry) { return entry.path == path; };
    const bool is_other = others.contains(folder) && std::ranges::find(given, folder) == given.end();
    if (is_top_level(folder) && !is_other && std::none_of(scan.unusable.begin(), scan.unusable.end(), is_it)) {
      folders.emplace_back(folder);
    }
  }
  return folders;
}

// The number of images found in each class folder.
using Tally = std::map<std::string, std::uint64_t, std::less<>>;

// These are notes, because they may well be intended; remark_on_classes() warns of what is probably
// a mistake. `samples`: "images".
void report_folders(const std::string& samples, const std::string& root, const std::vector<std::string>& folders,
                    const Tally& tally, const ClassList& classes, SkipLog& skipped) {
  for (const auto& folder : folders) {
    const auto found = tally.find(folder);
    const std::uint64_t images = found == tally.end() ? 0 : found->second;
    if (classes.number_of(folder) < 0) {
      skipped.add_note(join_path(root, folder),
                       "not in dataset.classes: " + std::to_string(images) + " " + samples + " left out");
    } else if (images == 0) {
      skipped.add_note(join_path(root, folder), "a class without " + samples);
    }
  }
}

// Warns of pictures that are not served, which nobody would miss in a run: kinds that are not read, and those that have
// the name of a JPEG, unless they can be the masks that a field asks for.
void warn_of_images(const DatasetOptions& options, const Scan& scan, SkipLog& skipped) {
  if (options.clip.frames > 0) return;
  const auto warn = [&](const auto& paths, const auto& is_meant, const std::string& what) {
    const auto count = static_cast<std::uint64_t>(std::ranges::count_if(paths, is_meant));
    if (count == 0) return;
    const std::string_view first = *std::ranges::find_if(paths, is_meant);
    skipped.add_warning(options.path, counted(count, "file") + what + ", the first: " + printable(first));
  };
  warn(scan.others.view(), is_unread_image_name, " of a kind of image that is not read");
  if (std::ranges::any_of(options.fields, [](const auto& field) { return field.kind == FieldKind::mask; })) return;
  std::vector<std::string_view> beside;
  for (const Skipped& each : scan.unusable) {
    if (each.reason == kBesideJpeg) beside.push_back(each.path);
  }
  warn(
      beside, [](std::string_view) { return true; }, " left out: " + std::string(kBesideJpeg));
}

void report_strays(const DatasetOptions& options, const std::string& root, const Scan& scan, SkipLog& skipped) {
  const std::string no_sample =
      (options.clip.frames > 0 ? "not a video (" : "not an image (") + std::string(sample_endings(options.clip)) + ")";
  warn_of_images(options, scan, skipped);
  skipped.add_all(root, scan.unusable);
  for (const auto* others : {&scan.others, &scan.annotations}) {
    for (const auto& path : *others) skipped.add_note(join_path(root, path), no_sample);
  }
}

std::string listed_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i == 0 ? "\"" : ", \"") + printable(names[i]) + "\"";
  }
  return text + (names.size() > kNamed ? ", ... (" + std::to_string(names.size()) + ")" : "");
}

// Warns of what is probably not intended.
void remark_on_classes(const DatasetOptions& options, const Scan& scan, const std::vector<std::string>& folders,
                       SkipLog& skipped) {
  if (!options.classes.empty()) return;
  const auto warn = [&](std::string reason) { skipped.add_warning(options.path, std::move(reason)); };
  const std::string samples = std::string(sample_noun(options.clip)) + "s";
  std::vector<std::string> others;
  for (const auto folder : folders_of_others(scan)) others.emplace_back(folder);
  if (!others.empty()) {
    warn("no class, because it has files and no " + samples + ": " + listed_names(others) +
         "; dataset.classes makes it one");
  }
  const auto classes = folders_with_images(scan, "");
  std::vector<std::string> empty;
  std::ranges::copy_if(folders, std::back_inserter(empty),
                       [&](const std::string& folder) { return std::ranges::find(classes, folder) == classes.end(); });
  if (!empty.empty()) warn("a class without " + samples + ": " + listed_names(empty));
  if (classes.size() != 1) return;
  const std::string below = printable(join_path(options.path, classes.front()));
  const bool is_nested = !folders_with_images(scan, classes.front()).empty();
  warn("all " + samples + " are of one class, \"" + printable(classes.front()) + "\"" +
       (is_nested ? "; for the folders in it as classes set dataset.path = \"" + below + "\"" : ""));
}

// A misspelt name loses its class, and held-out data may have one more than what was trained.
void remark_on_given_classes(const DatasetOptions& options, const Tally& tally, const ClassList& classes,
                             SkipLog& skipped) {
  std::vector<std::string> left_out;
  std::uint64_t samples = 0;
  for (const auto& [folder, count] : tally) {
    if (classes.number_of(folder) >= 0) continue;
    left_out.push_back(folder);
    samples += count;
  }
  if (left_out.empty()) return;
  std::vector<std::string> absent;
  std::ranges::copy_if(options.classes, std::back_inserter(absent),
                       [&](const std::string& name) { return !tally.contains(name); });
  const std::string noun(sample_noun(options.clip));
  skipped.add_warning(options.path, counted(samples, noun) + " left out, because dataset.classes does not name " +
                                        listed_names(left_out) +
                                        (absent.empty() ? "" : "; it names, and here are no " + noun + "s of, ") +
                                        listed_names(absent));
}

bool is_class_tree(PathContents& contents) {
  return contents.is_folder() && contents.kind_of_tree() == PathContents::Tree::classes;
}

// Whether all images lie at the top and their targets are fields. If there are no fields, images at
// the top are a mistake.
bool is_without_classes(const Scan& scan, const DatasetOptions& options) {
  return !options.fields.empty() && std::all_of(scan.images.begin(), scan.images.end(), is_top_level);
}

void add_without_classes(const Scan& scan, IndexDraft& draft) {
  for (const auto& image : scan.images) draft.table.add(draft.table.add_source(image), -1);
  draft.counts.images = scan.images.size();
}

// A class that is a link to a disk that is not mounted: without it the classes after it would have
// other numbers. dataset.classes numbers them whatever is there.
void require_no_lost_class(const DatasetOptions& options, const std::string& root, const Scan& scan) {
  if (!options.classes.empty()) return;
  const auto lost = std::ranges::find_if(
      scan.unusable, [](const Skipped& each) { return each.reason == kLinkToNothing && is_top_level(each.path); });
  if (lost == scan.unusable.end()) return;
  throw path_error(options, printable(join_path(root, lost->path)) + " stands where class folders stand and is " +
                                lost->reason +
                                "; without it the classes would have other numbers: mount the disk, "
                                "remove the link, or name the classes in dataset.classes");
}

IndexDraft build_folder(PathContents& contents) {
  const BuildContext& context = contents.context();
  const Scan& scan = contents.tree();
  const std::vector<std::string> folders = class_folders(scan, context.options.classes);
  const ClassList classes(context.options.classes, folders);

  IndexDraft draft;
  auto& [root, table, counts, skipped, state] = draft;
  root = contents.root();
  const bool are_clips = context.options.clip.frames > 0;
  state.add_all("", scan, are_clips ? DataState::Names::data_and_videos : DataState::Names::data);
  if (!scan.images.empty() && is_without_classes(scan, context.options)) {
    add_without_classes(scan, draft);
    report_strays(context.options, root, scan, skipped);
    return draft;
  }
  require_no_lost_class(context.options, root, scan);
  Tally tally;
  for (const auto& image : scan.images) {
    if (is_top_level(image)) {
      skipped.add_note(join_path(root, image), "not in a class folder");
      continue;
    }
    const auto folder = first_component(image);
    const auto found = tally.find(folder);
    ++(found == tally.end() ? tally[std::string(folder)] : found->second);
    const std::int32_t label = classes.number_of(folder);
    if (label < 0) continue;
    table.add(table.add_source(image), label);
  }
  remark_on_classes(context.options, scan, folders, skipped);
  if (!context.options.classes.empty()) remark_on_given_classes(context.options, tally, classes, skipped);
  report_folders(std::string(sample_noun(context.options.clip)) + "s", root, folders, tally, classes, skipped);
  report_strays(context.options, root, scan, skipped);
  if (table.source.empty()) {
    const std::string noun(sample_noun(context.options.clip));
    if (!context.options.classes.empty() && !tally.empty()) {
      throw path_error(context.options, "none of its class folders is in dataset.classes (" +
                                            listed_names(classes.names()) + "); they are " + listed_names(folders));
    }
    throw path_error(context.options, "found " + std::to_string(scan.images.size()) + " " + noun + "s (" +
                                          std::string(sample_endings(context.options.clip)) + ") and " +
                                          std::to_string(folders.size()) + " folders, but no " + noun +
                                          " in a class folder" + skipped.first_bad() +
                                          "; the folder format needs CLASS/x" + (are_clips ? ".mp4" : ".jpg") +
                                          " below this path; those without classes can be named in a list");
  }
  counts.images = scan.images.size();
  table.classes = classes.names();
  return draft;
}

}  // namespace

const Format formats::folder{.needs = "a folder of class folders",
                             .path = Format::Path::folder,
                             .detect = is_class_tree,
                             .build = build_folder,
                             .reads_urls = true,
                             .other_classes = Format::OtherClasses::told,
                             .reads_videos = true};

}  // namespace forebay::data

#include <algorithm>
#include <forebay/error.hpp>

#include "build.hpp"
#include "formats.hpp"

namespace forebay {
namespace {

bool is_top_level(std::string_view path) { return path.find('/') == std::string_view::npos; }

// Without link loops, and without what looks like a mistake, such as an empty folder "x.jpg".
std::vector<std::string> class_folders(const Scan& scan) {
  std::vector<std::string> folders;
  for (const auto& folder : scan.folders) {
    const auto is_it = [path = folder](const Skipped& entry) { return entry.path == path; };
    if (is_top_level(folder) && std::none_of(scan.unusable.begin(), scan.unusable.end(), is_it)) {
      folders.emplace_back(folder);
    }
  }
  return folders;
}

// Images found in each class folder.
using Tally = std::map<std::string, std::uint64_t, std::less<>>;

void report_folders(const std::string& root, const std::vector<std::string>& folders, const Tally& tally,
                    const ClassList& classes, SkipLog& skipped) {
  for (const auto& folder : folders) {
    const auto found = tally.find(folder);
    const std::uint64_t images = found == tally.end() ? 0 : found->second;
    if (classes.number_of(folder) < 0) {
      skipped.add_note(join_path(root, folder),
                       "not in dataset.classes: " + std::to_string(images) + " images left out");
    } else if (images == 0) {
      skipped.add_note(join_path(root, folder), "a class without images");
    }
  }
}

void report_strays(const std::string& root, const Scan& scan, SkipLog& skipped) {
  for (const auto& [path, reason, bad, told] : scan.unusable) {
    bad ? skipped.add_bad(join_path(root, path), reason) : skipped.add_note(join_path(root, path), reason);
  }
  for (const auto* others : {&scan.others, &scan.annotations}) {
    for (const auto& path : *others)
      skipped.add_note(join_path(root, path), "not an image (" + std::string(kImageEndings) + ")");
  }
}

bool is_class_tree(PathContents& contents) {
  return contents.is_folder() && contents.kind_of_tree() == PathContents::Tree::classes;
}

// Images in one folder, whose targets are fields.
bool is_without_classes(const Scan& scan, const DatasetOptions& options) {
  return !options.fields.empty() && std::all_of(scan.images.begin(), scan.images.end(), is_top_level);
}

void add_without_classes(const Scan& scan, IndexDraft& draft) {
  for (const auto& image : scan.images) draft.table.add(draft.table.add_source(image), -1);
  draft.counts.images = scan.images.size();
}

IndexDraft build_folder(PathContents& contents) {
  const BuildContext& context = contents.context();
  const Scan& scan = contents.tree();
  const std::vector<std::string> folders = class_folders(scan);
  const ClassList classes(context.options.classes, folders);

  IndexDraft draft;
  auto& [root, table, counts, skipped] = draft;
  root = contents.root();
  if (!scan.images.empty() && is_without_classes(scan, context.options)) {
    add_without_classes(scan, draft);
    report_strays(root, scan, skipped);
    return draft;
  }
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
  report_folders(root, folders, tally, classes, skipped);
  report_strays(root, scan, skipped);
  if (table.source.empty()) {
    throw path_error(context.options, "found " + std::to_string(scan.images.size()) + " images (" +
                                          std::string(kImageEndings) + ") and " + std::to_string(folders.size()) +
                                          " folders, but no image in a class folder" + skipped.first_bad() +
                                          "; the folder format needs CLASS/x.jpg below this path");
  }
  counts.images = scan.images.size();
  table.classes = classes.names();
  return draft;
}

}  // namespace

const Format formats::folder{
    .needs = "a folder of class folders", .path = Format::Path::folder, .detect = is_class_tree, .build = build_folder};

}  // namespace forebay

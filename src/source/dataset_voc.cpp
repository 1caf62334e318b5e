#include "dataset_annotations.hpp"
#include "index_build.hpp"

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>

namespace forebay {
namespace {

std::vector<std::size_t> match(const AnnotationLookup& lookup, const PathList& images) {
  std::vector<std::size_t> matches;
  matches.reserve(images.size());
  for (const auto& image : images) matches.push_back(lookup.find(image));
  return matches;
}

std::string base_stem(std::string_view path) {
  const auto name = base_name(path);
  return std::string(name.substr(0, name.rfind('.')));
}

// Annotations that no image uses, each with the image that is missing.
void report_orphans(const std::string& root, const Scan& scan, const AnnotationLookup& lookup,
                    const std::vector<std::size_t>& matches, SkipLog& skipped) {
  std::vector<bool> used(scan.annotations.size());
  const auto use = [&](std::size_t annotation) {
    if (annotation != AnnotationLookup::kNone) used[annotation] = true;
  };
  std::for_each(matches.begin(), matches.end(), use);
  // A FIFO or folder in the image's place is reported once, as what it is.
  for (const auto& entry : scan.unusable) {
    if (is_image_name(entry.path)) use(lookup.find(entry.path));
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const std::string_view path = scan.annotations[i];
    const std::size_t other = lookup.representative(path);
    if (other != i) {
      skipped.add_bad(join_path(root, path),
                      "another annotation has this name: " + std::string(scan.annotations[other]));
    } else {
      skipped.add_bad(join_path(root, path), "the image is missing: no " + base_stem(path) +
                                                 ".jpg (.jpeg, .jpe) beside it or beside a folder Annotations");
    }
  }
}

void report_others(const std::string& root, const Scan& scan, SkipLog& skipped) {
  for (const auto& [path, reason, bad] : scan.unusable) {
    bad ? skipped.add_bad(join_path(root, path), reason) : skipped.add_note(join_path(root, path), reason);
  }
  for (const auto& path : scan.others) skipped.add_note(join_path(root, path), "neither .jpg, .jpeg, .jpe nor .xml");
}

// "/data/JPEGImages" as the folder "/data" and the name "JPEGImages" in it.
std::pair<std::string, std::string> split_folder(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const fs::path parent = folder.parent_path();
  return {parent.string(), folder.filename().string()};
}

// The images below `path` with the annotations of the folders named Annotations beside it, seen from the parent folder.
Scan scan_beside(const BuildContext& context, const std::string& parent, const std::string& name, const Scan& images) {
  const auto put_below = [](PathList& paths, std::string_view folder, const PathList& from) {
    for (const auto path : from) paths.add(join_path(folder, path));
  };
  Scan scan;
  put_below(scan.images, name, images.images);
  put_below(scan.others, name, images.others);
  for (auto entry : images.unusable) {
    entry.path = join_path(name, entry.path);
    scan.unusable.push_back(std::move(entry));
  }
  const Scan beside_it = scan_folder(parent, "");
  for (const auto folder : beside_it.folders) {
    if (!is_annotations_folder(folder)) continue;
    const Scan beside = scan_tree(join_path(parent, folder), context.threads, context.progress);
    put_below(scan.annotations, folder, beside.annotations);
  }
  scan.annotations.sort();
  return scan;
}

[[noreturn]] void nothing_usable(const BuildContext& context, const IndexCounts& counts, const SkipLog& skipped) {
  throw path_error(context.options, "found " + std::to_string(counts.images) + " images (.jpg, .jpeg, .jpe), " +
                                        std::to_string(counts.annotations) + " readable annotations (.xml) and " +
                                        std::to_string(counts.objects) + " objects in them, none usable" +
                                        skipped.first_bad() +
                                        "; the voc format needs x.xml beside x.jpg or in a sibling folder Annotations");
}

}  // namespace

bool looks_like_voc(const Scan& scan) {
  if (std::any_of(scan.folders.begin(), scan.folders.end(),
                  [](std::string_view folder) { return is_annotations_folder(base_name(folder)); })) {
    return !scan.annotations.empty();
  }
  const AnnotationLookup lookup(scan.annotations.view());
  return std::any_of(scan.images.begin(), scan.images.end(),
                     [&](const auto& image) { return lookup.find(image) != AnnotationLookup::kNone; });
}

std::unique_ptr<Dataset> build_voc(const BuildContext& context, const std::string& root, const Scan& scan) {
  if (scan.annotations.empty()) {
    const auto [parent, name] = split_folder(root);
    Scan wider = scan_beside(context, parent, name, scan);
    if (!wider.annotations.empty()) return build_voc(context, parent, wider);
  }
  const AnnotationLookup lookup(scan.annotations.view());
  AnnotatedFiles files;
  files.root = root;
  files.annotations = scan.annotations.view();
  files.image_root = root;
  files.images = scan.images.view();
  files.annotation_of = match(lookup, scan.images);
  files.wanted.assign(scan.annotations.size(), true);

  SkipLog skipped;
  FileTable table;
  IndexRecord record;
  record.origin = origin_of(context.options, "voc");
  record.root = root;
  report_orphans(root, scan, lookup, files.annotation_of, skipped);
  report_others(root, scan, skipped);
  add_annotated_files(context, files, table, record.counts, skipped);
  if (table.file.empty()) nothing_usable(context, record.counts, skipped);
  record.skipped = skipped.take(root);
  return make_file_dataset(record, std::move(table));
}

}  // namespace forebay

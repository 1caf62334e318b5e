#include <algorithm>
#include <forebay/error.hpp>

#include "dataset_annotations.hpp"
#include "formats.hpp"
#include "path_contents.hpp"

namespace forebay {
namespace {

// Annotations that no image uses, each with the image that is missing.
void report_orphans(const std::string& root, const Scan& scan, const Pairing& pairing, SkipLog& skipped) {
  std::vector<bool> used(scan.annotations.size());
  const auto use = [&](std::size_t annotation) {
    if (annotation != AnnotationLookup::kNone) used[annotation] = true;
  };
  std::for_each(pairing.annotation_of.begin(), pairing.annotation_of.end(), use);
  for (const auto& doubt : pairing.doubts) {
    use(doubt.annotation);
    skipped.add_bad(join_path(root, scan.annotations[doubt.annotation]), doubt.reason);
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return;
  const AnnotationLookup lookup(scan.annotations.view());
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
      skipped.add_bad(join_path(root, path), "the image is missing: no " + std::string(stem_of(path)) +
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

// The images of the folder `place.name` with the annotations of the folders beside it, seen from the parent: of those
// named Annotations, or where there is none, of any that hold XML.
Scan scan_beside(const BuildContext& context, const PlaceInParent& place, const Scan& images) {
  Scan scan;
  add_below(scan.images, place.name, images.images);
  add_below(scan.others, place.name, images.others);
  for (auto entry : images.unusable) {
    entry.path = join_path(place.name, entry.path);
    scan.unusable.push_back(std::move(entry));
  }
  const Scan beside_it = scan_folder(place.parent, "");
  for (const auto folder : beside_it.folders) {
    if (!is_annotations_folder(folder)) continue;
    const Scan beside = scan_tree(join_path(place.parent, folder), context.threads, context.progress);
    add_below(scan.annotations, folder, beside.annotations);
  }
  const bool is_named = !scan.annotations.empty();
  for (const auto folder : beside_it.folders) {
    if (is_named || folder == place.name) continue;
    scan.annotations.append(std::move(scan_folder(place.parent, std::string(folder)).annotations));
  }
  scan.annotations.sort();
  return scan;
}

[[noreturn]] void nothing_usable(const BuildContext& context, const IndexDraft& draft) {
  const IndexCounts& counts = draft.counts;
  throw path_error(context.options,
                   "found " + std::to_string(counts.images) + " images (.jpg, .jpeg, .jpe), " +
                       std::to_string(counts.annotations) + " readable annotations (.xml) and " +
                       std::to_string(counts.objects) + " objects in them, none usable" + draft.skipped.first_bad() +
                       "; the voc format needs x.xml for x.jpg, beside it or in a folder such as Annotations");
}

IndexDraft build_from(const BuildContext& context, const std::string& root, const Scan& scan, const Pairing& pairing) {
  AnnotatedFiles files;
  files.root = root;
  files.annotations = scan.annotations.view();
  files.image_root = root;
  files.images = scan.images.view();
  files.annotation_of = pairing.annotation_of;
  files.wanted.assign(scan.annotations.size(), true);

  IndexDraft draft;
  draft.root = root;
  report_orphans(root, scan, pairing, draft.skipped);
  report_others(root, scan, draft.skipped);
  add_annotated_files(context, files, draft);
  if (draft.table.source.empty()) nothing_usable(context, draft);
  return draft;
}

bool is_voc_tree(PathContents& contents) {
  return contents.is_folder() && contents.kind_of_tree() == PathContents::Tree::voc;
}

IndexDraft build_voc(PathContents& contents) {
  const Pairing& pairing = contents.pairing();
  const Scan& scan = contents.tree();
  if (scan.annotations.empty()) {
    const PlaceInParent place = place_in_parent(contents.root());
    const Scan wider = scan_beside(contents.context(), place, scan);
    if (!wider.annotations.empty()) {
      return build_from(contents.context(), place.parent, wider, pair_annotations(wider));
    }
  }
  return build_from(contents.context(), contents.root(), scan, pairing);
}

}  // namespace

const Format formats::voc{.needs = "a folder of images and XML files",
                          .path = Format::Path::folder,
                          .detect = is_voc_tree,
                          .build = build_voc};

}  // namespace forebay

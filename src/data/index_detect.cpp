#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/text.hpp"
#include "dataset_pairing.hpp"
#include "index_parallel.hpp"
#include "path_contents.hpp"

namespace forebay {
namespace {

bool lies_in_folder(std::string_view path) { return path.find('/') != std::string_view::npos; }

bool has_folder_annotations(const Scan& scan) {
  return std::any_of(scan.folders.begin(), scan.folders.end(),
                     [](std::string_view folder) { return is_annotations_folder(base_name(folder)); });
}

// Whether any annotation of the scan is in VOC's format. The first one usually is.
bool holds_voc(const BuildContext& context, const std::string& root, const Scan& scan) {
  std::atomic<bool> found{false};
  ParallelTask task;
  task.count = scan.annotations.size();
  task.body = [&](std::size_t i) {
    if (!found && is_voc_annotation(join_path(root, scan.annotations[i]))) found = true;
  };
  task.total = task.count;
  run_parallel(task, context.threads, {});
  return found;
}

// Top folders that contain images: the classes of the folder format.
std::set<std::string_view> class_names(const Scan& scan) {
  std::set<std::string_view> names;
  for (const auto image : scan.images) {
    if (lies_in_folder(image)) names.insert(first_component(image));
  }
  return names;
}

std::string list_names(const std::set<std::string_view>& names) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  std::size_t named = 0;
  for (const auto name : names) {
    if (named++ == kNamed) return text + ", ...";
    text += (text.empty() ? "\"" : ", \"") + printable(name) + "\"";
  }
  return text;
}

// The error that shows both readings of a folder. `annotations` describes what VOC would use.
ConfigError two_readings(const BuildContext& context, const Scan& scan, const std::string& voc_path,
                         const std::string& annotations) {
  const std::string& path = context.options.path;
  const auto names = class_names(scan);
  const auto choice = [](const std::string& format, const std::string& at, const std::string& meaning) {
    return "\n  format = \"" + format + "\": " + meaning + "\n      forebay index \"" + at + "\" --format " + format;
  };
  return path_error(context.options, "can be read in two ways; set dataset.format (and path) to the one you mean:" +
                                         choice("voc", voc_path, "one sample per object, " + annotations) +
                                         choice("folder", path,
                                                "one sample per image, of the " + std::to_string(names.size()) +
                                                    (names.size() == 1 ? " class " : " classes ") + list_names(names)));
}

std::string how_many(const Pairing& pairing, const Scan& scan) {
  return std::to_string(pairing.paired) + " of the " + std::to_string(scan.images.size()) +
         " images have an annotation (" + printable(scan.annotations[0]) + ", ...)";
}

// VOC must be the clear reading if the folder could also be one of classes.
void refuse_unclear_voc(const BuildContext& context, const Scan& scan, const Pairing& pairing) {
  const std::string& path = context.options.path;
  if (!pairing.doubts.empty()) {
    const Pairing::Doubt& doubt = pairing.doubts.front();
    throw two_readings(context, scan, path,
                       how_many(pairing, scan) + ", the others are left out: " +
                           std::string(scan.annotations[doubt.annotation]) + ": " + doubt.reason);
  }
  if (pairing.paired == 0) {
    throw two_readings(
        context, scan, path,
        how_many(pairing, scan) + ": give an image and its annotation the same name, apart from the extension");
  }
  const bool most_are_annotated = pairing.paired * 2 >= scan.images.size();
  if (most_are_annotated || has_folder_annotations(scan) || class_names(scan).size() < 2) return;
  throw two_readings(context, scan, path, how_many(pairing, scan) + ", the others are left out");
}

bool can_be_listed(const std::string& folder) {
  std::error_code error;
  (void)std::filesystem::directory_iterator(folder, error);
  return !error;
}

// Class folders may be part of a VOC tree: images/train/x.jpg, with annots/train/x.xml beside the path. A folder beside
// it that cannot be listed may have nothing to do with the data, and is skipped.
void refuse_if_annotated_beside(const BuildContext& context, const std::string& root, const Scan& images) {
  const PlaceInParent place = place_in_parent(root);
  const Scan beside_it = scan_folder(place.parent, "");
  for (const auto name : beside_it.folders) {
    if (!may_hold_annotations(name) || name == place.name) continue;
    const std::string folder = join_path(place.parent, name);
    if (!can_be_listed(folder)) continue;
    const Scan beside = scan_tree(folder, context.threads, context.progress);
    Scan both;
    add_below(both.images, place.name, images.images);
    add_below(both.annotations, name, beside.annotations);
    add_below(both.others, name, beside.others);
    adopt_bare_annotations(place.parent, both);
    const Pairing pairing = pair_annotations(both);
    if (pairing.paired > 0 && holds_voc(context, place.parent, both)) {
      throw two_readings(context, images, place.parent, how_many(pairing, both));
    }
  }
}

}  // namespace

PathContents::Tree PathContents::kind_of_tree() {
  if (kind_) return *kind_;
  Scan& scan = tree();
  adopt_bare_annotations(root_, scan);
  const bool has_classes = std::any_of(scan.images.begin(), scan.images.end(), lies_in_folder);
  const bool has_voc = !scan.annotations.empty() && (has_folder_annotations(scan) || holds_voc(context_, root_, scan));
  if (has_voc && has_classes) refuse_unclear_voc(context_, scan, pairing());
  if (!has_voc && has_classes) refuse_if_annotated_beside(context_, root_, scan);
  // Images alone may have their annotations beside the path.
  const Tree otherwise = has_classes ? Tree::classes : scan.images.empty() ? Tree::neither : Tree::voc;
  return kind_.emplace(has_voc ? Tree::voc : otherwise);
}

}  // namespace forebay

// Shared by all formats while an index is built: the content of dataset.path (PathContents), the
// list of classes, the log of what was left out, and the origin by which a saved index is
// recognised later.
//
// Everything runs on the thread that opens the dataset; only listing trees and looking for VOC
// files use threads of their own, which end before the call returns. dataset.cpp asks one format
// after the other whether it recognises the path. They all query the same PathContents, which
// therefore keeps every answer: a tree of millions of files is listed once.
//
// A folder of images with XML files may be VOC (one sample per object) or class folders (one sample
// per image). The two give different samples and labels from the same files, so wherever both are
// possible the user has to choose: a silent guess would train on the wrong labels.

#include "build.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <forebay/error.hpp>
#include <set>
#include <system_error>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "class_text.hpp"
#include "container_bytes.hpp"
#include "fields.hpp"
#include "folder_roles.hpp"
#include "formats.hpp"
#include "pairing.hpp"
#include "parallel.hpp"
#include "store/files.hpp"
#include "video_samples.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::data {
namespace {

// Chosen: about as many notes as a person may read. Further ones are only counted by file
// extension, and the most frequent extensions are named.
constexpr std::size_t kNotes = 1000;
constexpr std::size_t kExtensionsNamed = 8;
// Including the dot. A longer suffix is more likely a part of the name, as in "v1.final-version";
// such suffixes would fill the list with counts of one.
constexpr std::size_t kLongestExtension = 12;

std::string extension_of(std::string_view path) {
  const auto name = base_name(path);
  const auto dot = name.rfind('.');
  const auto extension = dot == std::string_view::npos ? std::string_view{} : name.substr(dot);
  return extension.empty() || extension.size() > kLongestExtension ? "other names" : std::string(extension);
}

// A normal form for comparing paths as users write them: "data/", "data" and "./data" are equal. It
// is purely lexical: links are not followed, and the file need not exist any more.
std::string comparable(const std::string& path) {
  if (store::is_url(path)) (void)store::object_name(path);  // refuses one with a secret, since messages repeat it
  if (path.empty() || store::is_url(path)) return path;
  std::string normal = std::filesystem::path(absolute_path(path)).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

// Whether the image lies in a folder, whose topmost one is its class in the folder format.
bool lies_in_folder(std::string_view path) { return path.find('/') != std::string_view::npos; }

bool has_folder_annotations(const Scan& scan) {
  return std::any_of(scan.folders.begin(), scan.folders.end(),
                     [](std::string_view folder) { return is_annotations_folder(base_name(folder)); });
}

// Whether any annotation of the scan is in VOC's format. Usually the first one is, and the others
// are then not read.
bool holds_voc(const BuildContext& context, const std::string& root, const Scan& scan) {
  std::atomic<bool> found{false};
  run_parallel({scan.annotations.size(), context.threads}, [&](std::size_t i) {
    if (!found && is_voc_annotation(join_path(root, scan.annotations[i]))) found = true;
  });
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
  return quoted_names(std::vector(names.begin(), names.end()), kNamed);
}

// The error for a folder that can be read in two ways. For each it gives the key to set and a
// command that shows the result. `annotations` describes what VOC would use.
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

// Throws unless VOC is clearly meant. Called for a folder that also has class folders.
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

// Tries it, because access(2) may not know the permissions on a network file system.
bool can_be_listed(const std::string& folder) {
  std::error_code error;
  (void)std::filesystem::directory_iterator(folder, error);
  return !error;
}

// Throws if the class folders may be the images of a VOC tree: images/train/x.jpg, with
// annots/train/x.xml beside the path. A folder beside it that cannot be listed is skipped, because
// it may have nothing to do with the data.
void refuse_if_annotated_beside(const BuildContext& context, const std::string& root, const Scan& images) {
  if (store::is_url(root)) return;  // the user did not name what is beside it, and listing it may take long
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

std::string absolute_path(const std::string& path) {
  // Not normalized: if "a" is a link, "a/../b" need not be "b".
  return store::is_absolute(path) ? path : (std::filesystem::current_path() / path).string();
}

// Normalized first, so that "x/." and "x/.." have a real parent; "a/" has an empty last component
// and means "a".
PlaceInParent place_in_parent(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return {folder.parent_path().string(), folder.filename().string()};
}

void add_below(PathList& paths, std::string_view folder, const PathList& from) {
  for (const auto path : from) paths.add(join_path(folder, path));
}

ConfigError path_error(const DatasetOptions& options, const std::string& problem) {
  ConfigError error("dataset.path = \"" + options.path + "\": " + problem);
  return error;
}

// Must include every option that affects the index. If one were missing, an index saved with other
// options would be used silently.
IndexOrigin origin_of(const DatasetOptions& options, std::string format) {
  IndexOrigin origin;
  origin.path = comparable(options.path);
  origin.labels = comparable(options.labels);
  origin.classes = options.classes;
  origin.difficult = options.difficult;
  origin.samples = options.samples;
  origin.fields = describe_fields(options.fields);
  origin.clip = options.clip;
  const Format* known = find_format(format);
  if (known != nullptr && known->hash != nullptr) origin.source_hash = known->hash(options);
  origin.format = std::move(format);
  return origin;
}

// The odd multiplier (2^64 divided by the golden ratio) makes the result depend on the order of
// names, as XOR alone would not.
std::uint64_t hash_name(std::string_view name, std::uint64_t seed) noexcept {
  return (seed ^ chunk_sum(std::as_bytes(std::span(name)))) * 0x9E3779B97F4A7C15U;
}

// Reads 1 MiB at a time: a list may have gigabytes and is hashed at every start, so it is not
// loaded into memory for that.
std::uint64_t hash_file(const std::string& path, const char* key, std::uint64_t seed) {
  try {
    const OpenFile file = store::open_patiently(path);
    std::vector<std::byte> piece(std::min(file.size, std::size_t{1} << 20U));
    XXH3_state_t state;
    XXH3_INITSTATE(&state);  // the next call compares its seed with that of the state
    XXH3_64bits_reset_withSeed(&state, seed);
    for (std::size_t at = 0; at < file.size; at += piece.size()) {
      const auto next = std::span(piece).first(std::min(piece.size(), file.size - at));
      read_at_patiently(file, at, next);
      XXH3_64bits_update(&state, next.data(), next.size());
    }
    return XXH3_64bits_digest(&state);
  } catch (const SampleError& error) {
    throw ConfigError(std::string(key) + " = \"" + path + "\": " + error.what());
  }
}

// Names found in the data are sorted bytewise, so that class numbers depend neither on the order of
// files nor on the locale. Given names keep their order, which is how the user numbers the classes.
ClassList::ClassList(std::vector<std::string> given, std::vector<std::string> found) : names_(std::move(given)) {
  if (names_.empty()) {
    names_ = std::move(found);
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  }
  for (const auto& name : names_) {
    if (name.empty()) throw ConfigError("dataset.classes: a class name is empty");
    const bool is_new = numbers_.emplace(name, static_cast<std::int32_t>(numbers_.size())).second;
    if (!is_new) throw ConfigError("dataset.classes: \"" + name + "\" is listed twice");
  }
}

std::int32_t ClassList::number_of(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? -1 : found->second;
}

void SkipLog::add_bad(std::string path, std::string reason) {
  bad_.push_back({.path = std::move(path), .reason = std::move(reason), .bad = true});
}

void SkipLog::add_all(std::string_view folder, const std::vector<Skipped>& entries) {
  for (const Skipped& entry : entries) {
    entry.bad ? add_bad(join_path(folder, entry.path), entry.reason)
              : add_note(join_path(folder, entry.path), entry.reason);
  }
}

void SkipLog::add_warning(std::string path, std::string reason) {
  warnings_.push_back({.path = std::move(path), .reason = std::move(reason), .bad = false, .told = true});
}

// Notes are about files that are usual in folders (a README, a licence), so their number is
// limited. Bad entries and warnings concern samples and are all kept.
void SkipLog::add_note(std::string path, std::string reason) {
  if (notes_.size() < kNotes) {
    notes_.push_back({.path = std::move(path), .reason = std::move(reason), .bad = false});
  } else {
    ++more_[extension_of(path)];
  }
}

void SkipLog::explain_missing_labels(MissingLabels missing) {
  if (missing_labels_.why.empty()) missing_labels_ = std::move(missing);
}

// Extensions with equal counts keep the order of the map, which sorts them by name.
std::vector<Skipped> SkipLog::take(const std::string& root) {
  if (!more_.empty()) {
    std::vector<std::pair<std::string, std::uint64_t>> counts(more_.begin(), more_.end());
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::uint64_t all = 0;
    std::string named;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all += counts[i].second;
      if (i < kExtensionsNamed)
        named += (i == 0 ? "" : ", ") + std::to_string(counts[i].second) + " x " + counts[i].first;
    }
    if (counts.size() > kExtensionsNamed) named += ", ...";
    notes_.push_back({.path = root, .reason = "and " + std::to_string(all) + " more: " + named, .bad = false});
  }
  std::vector<Skipped> entries = std::move(bad_);
  std::ranges::move(warnings_, std::back_inserter(entries));
  std::move(notes_.begin(), notes_.end(), std::back_inserter(entries));
  return entries;
}

// Notes go through add_note(), so that its limit holds for all logs together.
void SkipLog::append(SkipLog&& other) {
  std::ranges::move(other.bad_, std::back_inserter(bad_));
  std::ranges::move(other.warnings_, std::back_inserter(warnings_));
  for (Skipped& note : other.notes_) add_note(std::move(note.path), std::move(note.reason));
  for (const auto& [extension, count] : other.more_) more_[extension] += count;
  explain_missing_labels(std::move(other.missing_labels_));
}

std::string SkipLog::first_bad() const {
  return bad_.empty() ? "" : ", the first problem: " + bad_.front().path + ": " + bad_.front().reason;
}

std::span<const std::byte> PathContents::head() {
  constexpr std::size_t kHead = 4096;  // enough to tell text from binary data
  if (head_) return *head_;
  try {
    const OpenFile file = store::open_patiently(files_.front());
    size_ = file.size;
    std::vector<std::byte> head(std::min(file.size, kHead));
    read_at_patiently(file, 0, head);
    return head_.emplace(std::move(head));
  } catch (const SampleError& error) {
    throw path_error(options(), error.what());
  }
}

// Damage in compressed data is not reported here, because the file may never be read; otherwise the
// builder that reads it reports the damage.
std::span<const std::byte> PathContents::contents_head() {
  if (!starts_as_gzip(head())) return head();
  if (contents_head_) return *contents_head_;
  std::vector<std::byte> inflated(head().size());
  try {
    const OpenFile file = store::open_patiently(files_.front());
    inflated.resize(open_gzip(file)->read(inflated));
  } catch (const SampleError& error) {
    if (error.is_transient()) throw path_error(options(), error.what());
    inflated.clear();
  }
  return contents_head_.emplace(std::move(inflated));
}

const Scan& PathContents::listing() {
  if (!listing_) listing_ = scan_folder(root_, "");
  return *listing_;
}

// Files of fields, and masks, look like samples (images, arrays), so they are removed before
// anything decides what kind of tree this is.
Scan& PathContents::tree() {
  if (!tree_) {
    tree_ = scan_tree(root_, context_.threads, context_.progress);
    take_videos(options().clip, *tree_);
    leave_out_fields(options().fields, *tree_);
    leave_out_masks(*tree_);
  }
  return *tree_;
}

// Annotations without an extension are adopted only here and in kind_of_tree(), because their
// contents must be read to recognise them.
const Pairing& PathContents::pairing() {
  if (!pairing_) {
    adopt_bare_annotations(root_, tree());
    leave_out_masks(*tree_);
    pairing_ = pair_annotations(*tree_);
  }
  return *pairing_;
}

// Decides in this order: VOC files within the tree, which must be unmistakable if there are class
// folders too; then class folders, unless annotations beside the path suggest VOC; then images in
// no folder, which can only be VOC's.
PathContents::Tree PathContents::kind_of_tree() {
  if (kind_) return *kind_;
  Scan& scan = tree();
  if (options().clip.frames > 0) return kind_.emplace(scan.images.empty() ? Tree::neither : Tree::classes);
  adopt_bare_annotations(root_, scan);
  leave_out_masks(scan);
  const bool has_classes = std::any_of(scan.images.begin(), scan.images.end(), lies_in_folder);
  const bool has_voc = !scan.annotations.empty() && (has_folder_annotations(scan) || holds_voc(context_, root_, scan));
  if (has_voc && has_classes) refuse_unclear_voc(context_, scan, pairing());
  if (!has_voc && has_classes) {
    refuse_if_annotated_beside(context_, root_, scan);
    refuse_roles_as_classes(context_, scan);
  }
  // Images that are in no folder may have their annotations beside the path.
  const Tree otherwise = has_classes ? Tree::classes : scan.images.empty() ? Tree::neither : Tree::voc;
  return kind_.emplace(has_voc ? Tree::voc : otherwise);
}

// Warns of words for missing values among classes that were found: pandas and R write them for gaps. Only where labels
// are texts of data: a folder or an annotation of this name is meant.
void note_missing_values(const DatasetOptions& options, const Format& format, IndexDraft& draft,
                         const std::string& root) {
  const std::array with_texts{&formats::filelist, &formats::table, &formats::npy, &formats::webdataset,
                              &formats::tfrecord};
  if (std::ranges::find(with_texts, &format) == with_texts.end()) return;
  const auto note = [&](const std::vector<std::string>& classes, const std::string& section) {
    const auto found = std::ranges::find_if(classes, is_missing_value);
    if (found == classes.end()) return;
    draft.skipped.add_warning(root, section + "\"" + printable(*found) +
                                        "\" is served as a class, and often stands for a missing value: correct these "
                                        "labels, or list all names in `classes` if it is one");
  };
  if (options.classes.empty()) note(draft.table.classes, "");
  for (const auto& column : draft.table.fields) {
    const FieldOptions* const asked = find_field(options, column.field.name);
    if (asked != nullptr && asked->classes.empty()) note(column.field.classes, "field \"" + column.field.name + "\": ");
  }
}

}  // namespace forebay::data

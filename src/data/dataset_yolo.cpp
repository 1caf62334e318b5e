// Images with label files of Darknet and ultralytics: a line for each object, in fractions of the
// image's sides.
//
// First the images are found (yolo_images.cpp), on the calling thread, from a folder, a data.yaml
// or a list. Then several threads read the label file of each image, and the image's header if
// boxes are requested, because boxes in the index are in pixels. Last, one thread goes through the
// results in the order of images, because the number of classes is known only when all labels have
// been read.
//
// As in ultralytics, an image without a label file has no objects; there is a warning, because
// missing label files look the same. An image with a wrong line is left out entirely.

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <forebay/error.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "class_text.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "image_size.hpp"
#include "object_samples.hpp"
#include "parallel.hpp"
#include "store/files.hpp"
#include "yolo_images.hpp"
#include "yolo_labels.hpp"

namespace forebay::data {
namespace {

// Images that a thread takes at a time. Chosen so that threads rarely contend for their shared
// counter.
constexpr std::size_t kImagesInTurn = 64;
// How many images are looked at to recognise the format.
constexpr std::size_t kImagesLookedAt = 16;

// An image with its labels, as one thread found them.
struct YoloImage {
  std::string labels;           // the label file; "" if there is none
  DataState::Annotation state;  // of the label file
  YoloLabels found;
  std::string problem;  // of the image
  ImageExtent size;     // only if boxes are requested
};

// Only these two errors mean that a file is missing: one that exists but cannot be read must not
// count as an image without objects.
bool is_missing(const std::string& path) {
  return ::access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

YoloLabels unusable(std::string problem) {
  YoloLabels labels;
  labels.problem = std::move(problem);
  return labels;
}

YoloLabels read_labels(const std::string& file, const YoloRules& rules, DataState::Annotation& state) {
  try {
    const auto bytes = load_annotation(file, state);
    const std::string_view text = as_text(bytes);
    YoloLabels labels = parse_yolo_labels(text, rules);
    if (!labels.problem.empty()) labels.problem += nature_as_cause(bytes);
    return labels;
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(file, error);
    return unusable(error.what());
  }
}

// Takes the first label file that exists, in the order of places_of_labels(). The size is as
// displayed, after EXIF's orientation, because labels are drawn on what is displayed.
YoloImage read_yolo_image(const std::string& image, const YoloRules& rules, bool needs_size) {
  YoloImage read;
  for (std::string& place : places_of_labels(image)) {
    if (is_missing(place)) continue;
    read.found = read_labels(place, rules, read.state);
    read.labels = std::move(place);
    break;
  }
  if (!needs_size || read.found.objects.empty()) return read;
  try {
    read.size = read_patiently(image, [&] { return displayed_size(store::open_regular(image)); });
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(image, error);
    read.problem = error.what();
  }
  return read;
}

// Whether boxes are requested: they are in pixels, so the sizes of images are needed.
bool needs_sizes(const DatasetOptions& options) {
  if (options.samples == SampleUnit::objects) return true;
  return std::ranges::any_of(options.fields, [](const auto& field) { return field.kind == FieldKind::boxes; });
}

// The class of each number in label files. If the dataset names its classes, the numbers refer to
// these names, and dataset.classes may choose and reorder them. Otherwise the numbers are the
// classes as they are.
class YoloClasses {
 public:
  // `found`: the dataset's names of classes, or nothing; `count`: the largest number in the labels
  // plus one. Throws ConfigError.
  YoloClasses(const std::vector<std::string>& given, std::vector<std::string> found, std::int64_t count)
      : known_(std::move(found)) {
    if (!known_.empty() && given.empty()) require_different();
    const ClassList classes(!given.empty() ? given : !known_.empty() ? known_ : numbered_classes(count), {});
    names_ = classes.names();
    for (const std::string& name : known_) numbers_.push_back(classes.number_of(name));
    left_out_.resize(numbers_.size());
  }

  // -1 if dataset.classes leaves it out.
  std::int32_t number_of(std::int32_t number) {
    if (known_.empty()) return number;
    const auto at = static_cast<std::size_t>(number);
    left_out_[at] += numbers_[at] < 0 ? 1 : 0;
    return numbers_[at];
  }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

  void report(const std::string& root, SkipLog& skipped) const {
    for (std::size_t i = 0; i < left_out_.size(); ++i) {
      if (left_out_[i] == 0) continue;
      skipped.add_note(root, std::to_string(left_out_[i]) + " objects of the class \"" + known_[i] +
                                 "\", which is not in dataset.classes");
    }
  }

 private:
  // Throws if two numbers have the same name. Not with dataset.classes: a name there joins its
  // numbers.
  void require_different() const {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const auto same = std::find(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(i), known_[i]);
      if (!known_[i].empty() && *same == known_[i] && same != known_.begin() + static_cast<std::ptrdiff_t>(i)) {
        throw ConfigError("the classes " + std::to_string(same - known_.begin()) + " and " + std::to_string(i) +
                          " of the dataset are both called \"" + known_[i] +
                          "\"; dataset.classes with each name once makes them one class");
      }
      if (known_[i].empty()) throw ConfigError("the class " + std::to_string(i) + " of the dataset has no name");
    }
  }

  std::vector<std::string> known_;
  std::vector<std::string> names_;
  std::vector<std::int32_t> numbers_;  // by number in the labels, if known
  std::vector<std::uint64_t> left_out_;
};

class YoloBuilder {
 public:
  explicit YoloBuilder(PathContents& contents)
      : contents_(contents), images_(find_yolo_images(contents, draft_.skipped)) {
    const auto& given = contents_.options().classes;
    rules_ = {.classes = images_.names.empty() ? given.size() : images_.names.size(),
              .keypoint_numbers = images_.keypoint_numbers};
  }

  IndexDraft build() {
    draft_.root = images_.root;
    remember_folders();
    read_all();
    draft_.counts.images = images_.paths.size();
    YoloClasses classes(contents_.options().classes, images_.names, count_of_classes());
    ObjectSamples samples(contents_.options(), classes.names());
    for (std::size_t i = 0; i < read_.size(); ++i) add(images_.paths[i], read_[i], classes, samples);
    report(classes, samples.are_images());
    if (draft_.table.source.empty() || draft_.counts.annotations == 0) nothing_usable();
    if (samples.sizes_left_out() > 0) {
      draft_.skipped.add_note(contents_.root(), sizes_left_out_note(samples.sizes_left_out()));
    }
    samples.finish(draft_.table);
    return std::move(draft_);
  }

 private:
  // Records the folders that were searched for images and those where labels are looked for,
  // because new files may come there. A new label file changes an image that had none, so folders
  // without label files, and folders that do not exist, are recorded as well.
  void remember_folders() {
    std::set<std::string> of_labels;
    std::string_view last;
    for (const std::string& image : images_.paths) {
      if (parent_folder(image) == last) continue;
      last = parent_folder(image);
      for (const std::string& place : places_of_labels(image)) of_labels.emplace(parent_folder(place));
    }
    for (const ListedFolder& folder : images_.listed) {
      const bool has_labels = of_labels.erase(folder.path) > 0;
      remember(folder, has_labels ? DataState::Names::data_and_texts : DataState::Names::data);
    }
    std::vector<ListedFolder> others;
    others.reserve(of_labels.size());
    for (const std::string& path : of_labels) others.push_back({.path = path});
    run_parallel({others.size(), contents_.context().threads},
                 [&](std::size_t i) { others[i] = scan_folder(others[i].path, "").listed.front(); });
    std::size_t i = 0;
    for (const std::string& path : of_labels) {
      others[i].path = path;
      remember(std::move(others[i++]), DataState::Names::texts);
    }
  }

  void remember(ListedFolder folder, DataState::Names names) {
    folder.path = name_of(folder.path);
    draft_.state.add("", folder, names);
  }

  void read_all() {
    read_.resize(images_.paths.size());
    const bool needs_size = needs_sizes(contents_.options());
    run_parallel({read_.size(), contents_.context().threads, contents_.context().progress, kImagesInTurn},
                 [&](std::size_t i) { read_[i] = read_yolo_image(images_.paths[i], rules_, needs_size); });
  }

  // 64 bits, because the largest number plus one may not fit into 32.
  [[nodiscard]] std::int64_t count_of_classes() const {
    std::int32_t largest = -1;
    for (const YoloImage& image : read_) {
      for (const YoloObject& object : image.found.objects) largest = std::max(largest, object.number);
    }
    return std::int64_t{largest} + 1;
  }

  // An image with a wrong label is left out, as in ultralytics, because what it shows is unknown.
  void add(const std::string& path, const YoloImage& image, YoloClasses& classes, ObjectSamples& samples) {
    draft_.counts.annotations += image.labels.empty() ? 0 : 1;
    if (!image.labels.empty()) draft_.state.add(std::string(name_of(image.labels)), image.state);
    draft_.counts.objects += image.found.objects.size() + image.found.duplicates;
    duplicates_ += image.found.duplicates;
    polygons_ += image.found.has_polygons ? 1 : 0;
    keypoints_ += image.found.may_be_keypoints ? 1 : 0;
    if (!image.found.problem.empty()) return bad(image.labels, image.found.problem + "; its image is left out");
    if (!image.problem.empty()) return bad(path, image.problem);
    unlabelled_ += image.labels.empty() ? 1 : 0;
    objects_.clear();
    for (const YoloObject& object : image.found.objects) place(object, image, classes);
    without_ += objects_.empty() ? 1 : 0;
    samples.add(name_of(path), objects_, image.size, draft_.table);
  }

  // Rounding may make boxes reach a little past the image; one that lies outside altogether is an
  // error in the labels.
  void place(const YoloObject& object, const YoloImage& image, YoloClasses& classes) {
    const bool is_placed = image.size.width > 0;  // else boxes are not requested
    const double width = is_placed ? image.size.width : 1;
    const double height = is_placed ? image.size.height : 1;
    const auto& [left, top, right, bottom] = object.sides;
    const BoxSides sides{left * width, top * height, right * width, bottom * height};
    const LabelledBox box = labelled_box(sides, -1);
    const bool has_area = box.left < box.right && box.top < box.bottom;
    if (!has_area || box.right <= 0 || box.bottom <= 0 || sides[0] >= width || sides[1] >= height) {
      return bad(image.labels, "line " + std::to_string(object.line) +
                                   (has_area ? ": the box lies outside its image" : ": the box has no area"));
    }
    const std::int32_t label = classes.number_of(object.number);
    if (label < 0) return;
    objects_.push_back({{.box = pixels_of(sides), .object = object.line}, labelled_box(sides, label)});
  }

  // Paths below the root are stored without it, so that a copy of the dataset has the same names.
  [[nodiscard]] std::string_view name_of(std::string_view path) const {
    const bool is_below = path.starts_with(images_.root) && path.substr(images_.root.size()).starts_with('/');
    return is_below ? path.substr(images_.root.size() + 1) : path;
  }

  void bad(const std::string& file, std::string reason) { draft_.skipped.add_bad(file, std::move(reason)); }

  void report(const YoloClasses& classes, bool are_images) {
    const auto& root = contents_.root();
    classes.report(root, draft_.skipped);
    if (duplicates_ > 0) {
      draft_.skipped.add_note(root, std::to_string(duplicates_) + " lines of labels that repeat another one");
    }
    if (unlabelled_ > 0) {
      draft_.skipped.add_warning(
          root, std::to_string(unlabelled_) + " images have no file of labels: they are served as images of no object");
    }
    if (!are_images && without_ > 0) {
      draft_.skipped.add_note(root, std::to_string(without_) + " images without objects");
    }
    if (polygons_ > 0 && polygons_ == keypoints_) {
      draft_.skipped.add_warning(root, "all polygons of its labels, in " + std::to_string(polygons_) +
                                           " files, could also be a box and keypoints; if they are, say so by " +
                                           "kpt_shape in data.yaml");
    }
  }

  [[noreturn]] void nothing_usable() const {
    const auto& paths = images_.paths;
    const std::string looked = paths.empty() ? "" : joined(places_of_labels(paths.front()), " or ");
    throw path_error(contents_.options(),
                     "found " + std::to_string(paths.size()) + " images and labels of " +
                         std::to_string(draft_.counts.annotations) + " of them, none usable" +
                         draft_.skipped.first_bad() +
                         (paths.empty() ? "" : "; the labels of " + paths.front() + " would be " + looked));
  }

  PathContents& contents_;
  IndexDraft draft_;
  YoloImages images_;
  YoloRules rules_;
  std::vector<YoloImage> read_;  // by image
  std::vector<FoundObject> objects_;
  std::uint64_t duplicates_ = 0;
  std::uint64_t unlabelled_ = 0;
  std::uint64_t without_ = 0;
  std::uint64_t polygons_ = 0;
  std::uint64_t keypoints_ = 0;
};

// Whether some of the images that are looked at have labels, and none has a file of another kind.
// They are spread over the scan, because the first images may be those of one class or video.
bool has_yolo_labels(const std::string& root, const Scan& scan) {
  bool has_objects = false;
  const std::size_t looks = std::min(kImagesLookedAt, scan.images.size());
  for (std::size_t i = 0; i < looks; ++i) {
    const std::string image = join_path(root, scan.images[i * (scan.images.size() / looks)]);
    const YoloLabels labels = read_yolo_image(image, {}, false).found;
    if (!labels.problem.empty()) return false;
    has_objects = has_objects || !labels.objects.empty();
  }
  return has_objects;
}

bool is_yolo(PathContents& contents) {
  const std::string& root = contents.root();
  if (!contents.is_folder()) return is_yaml_name(root);
  const auto is_config = [&](std::string_view name) {
    return is_yaml_name(name) && is_yolo_config(join_path(root, name));
  };
  if (std::ranges::any_of(contents.listing().others, is_config)) return true;
  const Scan& tree = contents.tree();
  if (!has_yolo_labels(root, tree)) return false;
  if (tree.annotations.empty() || !is_voc_annotation(join_path(root, tree.annotations[0]))) return true;
  throw path_error(contents.options(),
                   R"(has labels of YOLO (.txt) and of Pascal VOC (.xml); set dataset.format to "yolo" or "voc")");
}

IndexDraft build_yolo(PathContents& contents) {
  return naming_path(contents.options(), "", [&] { return YoloBuilder(contents).build(); });
}

// Label files are compared by the state (data_state.cpp); the hash covers the files and folders
// that name images and classes.
std::uint64_t hash_yolo(const DatasetOptions& options) {
  std::uint64_t hash = 0;
  const auto [files, folders] = yolo_sources(options);
  for (const std::string& file : files) hash = hash_file(file, "dataset.path", hash);
  for (const std::string& folder : folders) hash = hash_name(folder, hash);
  return hash;
}

}  // namespace

const Format formats::yolo{.needs = "a folder of images with YOLO labels, their data.yaml or a list of them",
                           .path = Format::Path::either,
                           .detect = is_yolo,
                           .build = build_yolo,
                           .hash = hash_yolo,
                           .hashed = "data.yaml, classes.txt or a list",
                           .has_objects = true,
                           .other_classes = Format::OtherClasses::left_out};

}  // namespace forebay::data

// COCO's instances files: one JSON text with lists of images, of their objects, and of the objects'
// classes.
//
// On the calling thread, coco_file.cpp parses the file into compact lists. Then, here, images that
// share an id or a file are left out, objects are grouped by image with a counting sort (a COCO
// file lists them in any order), and samples are added image by image, in the order of the file.
// The file does not say where the images are, so usual folders are tried with a few of them.
//
// Ids are looked up by binary search (CocoIds), because they may be any 64-bit numbers. Crowds
// ("iscrowd": 1, several objects as one region) are not samples; in masks they mark pixels of no
// class.

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <numeric>
#include <utility>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "coco_classes.hpp"
#include "coco_file.hpp"
#include "coco_segmentation.hpp"
#include "formats.hpp"
#include "object_samples.hpp"
#include "store/files.hpp"
#include "tool_images.hpp"

namespace forebay::data {
namespace {

constexpr std::int32_t kCrowd = -2;  // in place of a class

// COCO's bbox is [x, y, width, height] from the top left corner, in pixels with fractions
// (cocodataset.org, "Data format").
BoxSides sides_of(const CocoFile::Object& object) {
  const auto [x, y, width, height] = object.box;
  return {x, y, x + width, y + height};
}

// What is wrong with the object's box; "" if nothing is. Edges are compared as floats, in which
// boxes are stored: a box that begins just before the image's edge as a double may begin on it as a
// float.
std::string problem_of_object(const CocoFile::Object& object, const CocoFile::Image& image) {
  const auto is_beyond = [](double side, std::int32_t edge) {
    return edge > 0 && static_cast<float>(side) >= static_cast<float>(edge);
  };
  const auto [left, top, right, bottom] = sides_of(object);
  std::string problem = problem_of_box({left, top, right, bottom});
  if (problem.empty() && (is_beyond(left, image.width) || is_beyond(top, image.height))) {
    problem = "lies outside its image of " + std::to_string(image.width) + "x" + std::to_string(image.height);
  }
  if (problem.empty()) return {};
  std::string shown = "bbox [";
  for (const double number : object.box) {
    shown.append(shown.ends_with('[') ? "" : ", ").append(shortest(number));
  }
  return shown + "] " + problem;
}

FoundObject found_object(const CocoFile::Object& object, std::int32_t label, std::uint32_t number) {
  const BoxSides sides = sides_of(object);
  return {{.box = pixels_of(sides), .object = number}, labelled_box(sides, label)};
}

class CocoBuilder {
 public:
  CocoBuilder(PathContents& contents, CocoFile coco)
      : contents_(contents),
        coco_(std::move(coco)),
        image_ids_(coco_.images),
        object_ids_(coco_.objects),
        classes_(coco_, contents.options().classes),
        samples_(contents.options(), classes_.names()),
        masks_(contents.options(), classes_.names()) {}

  IndexDraft build(std::string root) {
    draft_.root = std::move(root);
    draft_.counts = {.images = coco_.all_images, .annotations = 1, .objects = coco_.all_objects};
    for (auto& [where, reason] : coco_.bad) draft_.skipped.add_bad(entry(where), std::move(reason));
    leave_out_images();
    sort_objects();
    add_samples();
    report();
    if (draft_.table.source.empty() || (wanted_objects_ == 0 && coco_.all_objects > 0)) {
      throw path_error(contents_.options(), "found " + std::to_string(coco_.all_images) + " images and " +
                                                std::to_string(coco_.all_objects) + " annotations, none usable" +
                                                draft_.skipped.first_bad());
    }
    samples_.finish(draft_.table);
    masks_.finish(draft_.table);
    return std::move(draft_);
  }

 private:
  [[nodiscard]] std::string entry(const std::string& where) const { return contents_.root() + "#" + where; }
  // Bad elements are named up to a limit and then counted, together with those of the parser.
  void bad(const char* kind, const CocoFile::Place& place, std::string reason) {
    if (named_bad_++ < CocoFile::kBadNamed) {
      draft_.skipped.add_bad(entry(CocoFile::name_of(kind, place)), std::move(reason));
    } else {
      ++coco_.more_bad;
    }
  }

  // Leaves out all images that share an id, because it is unclear to which of them an object
  // belongs, and images whose file an earlier image has (the sort is stable). With masks, also
  // images without a size.
  void leave_out_images() {
    is_used_.assign(coco_.images.size(), true);
    std::vector<std::uint32_t> by_path(coco_.images.size());
    std::iota(by_path.begin(), by_path.end(), 0U);
    std::ranges::stable_sort(by_path, {}, [&](std::uint32_t i) { return coco_.paths[coco_.images[i].path]; });
    for (std::size_t i = 1; i < by_path.size(); ++i) {
      const auto path = [&](std::size_t at) { return coco_.paths[coco_.images[by_path[at]].path]; };
      if (path(i) == path(i - 1)) is_used_[by_path[i]] = false;
    }
    for (std::size_t i = 0; i < coco_.images.size(); ++i) {
      const CocoFile::Place& place = coco_.images[i].place;
      const bool has_own_id = !image_ids_.is_shared(place.id);
      const bool has_size = masks_.empty() || (coco_.images[i].width > 0 && coco_.images[i].height > 0);
      if (has_own_id && is_used_[i] && has_size) continue;
      const std::string file(coco_.paths[coco_.images[i].path]);
      bad("image", place,
          !has_own_id    ? "another image has this id: " + file
          : !is_used_[i] ? "another image has its file_name: " + file
                         : "it has no width and height, which its mask needs: " + file);
      is_used_[i] = false;
    }
  }

  // The class of an object; kCrowd if it is a crowd of a served class, and -1 if it is not served.
  // Called exactly once per object, because it also counts and reports. The checks come in the
  // order in which a user would look for the object's image, then its class, then its box.
  std::int32_t label_of(std::size_t i) {
    const CocoFile::Object& object = coco_.objects[i];
    const std::uint32_t image = image_ids_.find(object.image);
    const std::uint32_t category = classes_.category(object.category);
    std::string problem;
    if (object.place.has_id && object_ids_.find(object.place.id) != i) {
      problem = "another annotation has this id";
    } else if (image == kNoElement) {
      problem = "no image has the id " + std::to_string(object.image);
    } else if (category == kNoElement) {
      problem = "no category has the id " + std::to_string(object.category);
    } else if (!object.is_crowd) {
      problem = problem_of_object(object, coco_.images[image]);
    }
    if (problem.empty() && !masks_.empty() && is_used_[image]) {
      problem = CocoMaskFields::problem_of(coco_.shapes_at(i), coco_.images[image]);
    }
    if (!problem.empty()) {
      bad("annotation", object.place, std::move(problem));
      return -1;
    }
    ++wanted_objects_;
    const std::int32_t label = classes_.number_of(category);
    if (object.is_crowd || label < 0) ++(object.is_crowd ? crowds_ : left_out_[category]);
    if (!is_used_[image]) return -1;
    return object.is_crowd && label >= 0 ? kCrowd : label;
  }

  // Groups the objects by image, in file order. Objects without an image belong to no group; the
  // reason is logged here.
  void sort_objects() {
    left_out_.assign(coco_.categories.size(), 0);
    ends_.assign(coco_.images.size() + 1, 0);
    for (const CocoFile::Object& object : coco_.objects) {
      const std::uint32_t image = image_ids_.find(object.image);
      if (image != kNoElement) ++ends_[image + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    by_image_.resize(ends_.back());
    std::vector<std::uint32_t> next(ends_.begin(), ends_.end() - 1);
    for (std::size_t i = 0; i < coco_.objects.size(); ++i) {
      const std::uint32_t image = image_ids_.find(coco_.objects[i].image);
      if (image == kNoElement) {
        (void)label_of(i);  // logs the reason
      } else {
        by_image_[next[image]++] = static_cast<std::uint32_t>(i);
      }
    }
  }

  // label_of() is called even for the objects of an unused image, so that counts and reports cover
  // the whole file.
  void add_samples() {
    std::vector<FoundObject> found;
    for (std::size_t i = 0; i < coco_.images.size(); ++i) {
      found.clear();
      masks_.begin_image(coco_.images[i]);
      for (std::uint32_t at = ends_[i]; at < ends_[i + 1]; ++at) {
        const std::uint32_t object = by_image_[at];
        const std::int32_t label = label_of(object);
        if (label >= 0) found.push_back(found_object(coco_.objects[object], label, at - ends_[i] + 1));
        if (masks_.empty()) continue;
        if (label == kCrowd) masks_.add_crowd(coco_.shapes_at(object));
        if (label >= 0) masks_.add_object(label, coco_.shapes_at(object));
      }
      if (!is_used_[i]) continue;
      masks_.end_image();
      without_ += found.empty() ? 1 : 0;
      const CocoFile::Image& image = coco_.images[i];
      samples_.add(coco_.paths[image.path], found, {image.width, image.height}, draft_.table);
    }
  }

  void report() {
    const auto note = [&](const std::string& text) { draft_.skipped.add_note(contents_.root(), text); };
    if (coco_.more_bad > 0) {
      draft_.skipped.add_bad(contents_.root(), "and " + std::to_string(coco_.more_bad) + " more elements that are bad");
    }
    if (coco_.slivers > 0) {
      note(std::to_string(coco_.slivers) + " polygons of fewer than three corners, which have no shape");
    }
    if (crowds_ > 0) note(std::to_string(crowds_) + " annotations of crowds (iscrowd), which are not single objects");
    for (std::size_t i = 0; i < left_out_.size(); ++i) {
      if (left_out_[i] == 0) continue;
      note(std::to_string(left_out_[i]) + " annotations of the category \"" + coco_.categories[i].name +
           "\", which is not in dataset.classes");
    }
    if (samples_.sizes_left_out() > 0) note(sizes_left_out_note(samples_.sizes_left_out()));
    if (without_ > 0 && !samples_.are_images()) note(std::to_string(without_) + " images without objects");
  }

  PathContents& contents_;
  CocoFile coco_;
  CocoIds image_ids_;
  CocoIds object_ids_;
  CocoClasses classes_;
  ObjectSamples samples_;
  CocoMaskFields masks_;
  IndexDraft draft_;
  std::vector<bool> is_used_;        // by image
  std::vector<std::uint32_t> ends_;  // where each image's objects end in by_image_, after a leading 0
  std::vector<std::uint32_t> by_image_;
  std::vector<std::uint64_t> left_out_;  // by category
  std::uint64_t crowds_ = 0;
  std::uint64_t without_ = 0;
  std::uint64_t wanted_objects_ = 0;  // objects without a problem
  std::uint64_t named_bad_ = 0;
};

// Where the images of "annotations/instances_train2017.json" may be, the likeliest first: in
// "train2017" and "images/train2017" below the file's folder and the folder above it; then in these
// two folders themselves and their "images". Roboflow, for one, puts the file among the images;
// COCO itself has annotations/ beside train2017/.
std::vector<std::string> likely_folders(const std::string& file) {
  const std::string here(parent_folder(file));
  const std::string above(parent_folder(here));
  const std::string_view stem = stem_of(file);
  const std::string_view word = stem.substr(stem.rfind('_') + 1);
  std::vector<std::string> folders;
  for (const std::string& folder : {here, above}) {
    if (!word.empty()) folders.push_back(join_path(folder, word));
    if (!word.empty()) folders.push_back(join_path(join_path(folder, "images"), word));
  }
  for (const std::string& folder : {here, above}) {
    folders.push_back(folder);
    folders.push_back(join_path(folder, "images"));
  }
  return folders;
}

// A path in the file may be absolute.
std::string file_in_folder(std::string_view folder, std::string_view path) {
  return store::is_absolute(path) ? std::string(path) : join_path(folder, path);
}

// Throws ConfigError for fields that a COCO file cannot fill.
void refuse_fields(const DatasetOptions& options) {
  refuse_label_field(options);
  for (const FieldOptions& field : options.fields) {
    if (CocoMaskFields::is_one(field)) CocoMaskFields::require_mask(field);
  }
}

// A .json file that begins with '[' may be in COCO's results format, which has no images. It is
// accepted so that reading it gives the better error.
bool is_coco(PathContents& contents) {
  if (contents.is_folder()) return false;
  const std::string_view text = as_text(contents.head());
  const std::string_view rest = text.substr(std::min(text.find_first_not_of("\xEF\xBB\xBF \t\r\n"), text.size()));
  const bool is_json = contents.root().ends_with(".json");
  if (!rest.starts_with('{')) return is_json && rest.starts_with('[');
  const auto names = [&](std::string_view list) { return rest.find(list) != std::string_view::npos; };
  return is_json || names("\"images\"") || names("\"annotations\"") || names("\"categories\"");
}

// The total passed to `progress` is an estimate from the share of bytes that were parsed.
IndexDraft build_coco(PathContents& contents) {
  const BuildContext& context = contents.context();
  refuse_fields(context.options);
  const auto progress = [&](std::uint64_t elements, double share) {
    if (!context.progress) return;
    const double expected = share > 0 ? static_cast<double>(elements) / share : 0;
    context.progress(elements, std::max(elements, static_cast<std::uint64_t>(expected)));
  };
  return naming_path(context.options, "", [&] {
    CocoFile coco =
        read_coco(store::open_patiently(contents.root()), progress, CocoMaskFields::wanted(context.options));
    std::string folder = folder_of_images(
        context.options, contents.root(), likely_folders(contents.root()), coco.paths.size(),
        [&](std::size_t i) { return std::string(coco.paths[i]); }, file_in_folder);
    return CocoBuilder(contents, std::move(coco)).build(std::move(folder));
  });
}

std::uint64_t hash_coco(const DatasetOptions& options) { return hash_file(options.path, "dataset.path", 0); }

}  // namespace

const Format formats::coco{.needs = "a COCO file of instances (.json)",
                           .path = Format::Path::file,
                           .detect = is_coco,
                           .build = build_coco,
                           .hash = hash_coco,
                           .hashed = "the file",
                           .chooses_image = true,
                           .has_objects = true,
                           .finds_files = false,
                           .other_classes = Format::OtherClasses::left_out};

}  // namespace forebay::data

// Finds out which annotation belongs to which image, by names alone, without opening files.
//
// There are three rules, each tried only if the one before pairs nothing: the layouts of VOC and
// ILSVRC (the same place, or one with a folder "Annotations" above it or in place of another
// component); the same stem and the same folders except for one component, whatever its name; the
// same stem alone. The last two are guesses, so they pair only what is unambiguous, and report
// doubts.
//
// There may be millions of paths. So the lookup stores annotation numbers, and normalizes a path
// whenever it compares it instead of storing the result.

#include "pairing.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text.hpp"
#include "store/files.hpp"

#include "annotation.hpp"

namespace forebay::data {
namespace {

constexpr std::string_view kFolder = "Annotations";

// A path without its extension and with a uniform spelling of all folders named Annotations. The
// stem is not normalized.
std::string place_of_path(std::string_view path) {
  std::string place;
  std::string_view rest = without_extension(path);
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const auto folder = rest.substr(0, slash);
    place.append(is_annotations_folder(folder) ? kFolder : folder).append("/");
    rest.remove_prefix(slash + 1);
  }
  return place.append(rest);
}

constexpr std::size_t kNone = AnnotationLookup::kNone;

// "SegmentationClass" of VOC, "masks", "image_masks".
bool has_mask_folder(std::string_view folders) {
  const std::string lower = lower_case(folders);
  return lower.find("mask") != std::string::npos || lower.find("segmentation") != std::string::npos;
}

// "a/x" for "a/x_mask" and "a/x_mask_1"; the unchanged place if it does not end in such a word. In many segmentation
// datasets "x_mask.png" is the mask of x.jpg.
std::string_view without_mask_word(std::string_view whole) noexcept {
  const std::size_t number = whole.find_last_not_of("0123456789");
  const bool is_numbered = number != std::string_view::npos && number + 1 < whole.size() && whole[number] == '_';
  const std::string_view place = is_numbered ? whole.substr(0, number) : whole;
  for (const std::string_view word : {"mask", "masks", "seg", "segmentation", "label", "labels", "gt", "annotation"}) {
    if (place.size() <= word.size() + 1 || !place.ends_with(word)) continue;
    const char before = place[place.size() - word.size() - 1];
    if (before == '_' || before == '-' || before == '.') return place.substr(0, place.size() - word.size() - 1);
  }
  return whole;
}

Pairing pair_by_place(const Scan& scan) {
  const AnnotationLookup lookup(scan.annotations.view());
  Pairing pairing;
  pairing.annotation_of.reserve(scan.images.size());
  for (const auto image : scan.images) {
    pairing.annotation_of.push_back(lookup.find(image));
    pairing.paired += pairing.annotation_of.back() == kNone ? 0 : 1;
  }
  return pairing;
}

// Keys of a path: its stem with all folders, and with each folder left out in turn. An image and
// its annotation share one of them: train/images/x and train/annots/x share "x/train".
std::vector<std::string> keys_of(std::string_view path) {
  const std::string stem(stem_of(path));
  const std::string_view folders = parent_folder(path);
  std::vector<std::string> keys{stem + "/" + std::string(folders)};
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = std::min(folders.find('/', begin), folders.size());
    std::string rest(folders.substr(0, begin));
    rest += folders.substr(std::min(end + 1, folders.size()));
    if (rest.ends_with('/')) rest.pop_back();
    keys.push_back(std::string(stem).append("/").append(rest));
    begin = end + 1;
  }
  return keys;
}

std::vector<std::string> stem_alone(std::string_view path) { return {std::string(stem_of(path))}; }

// Pairs images and annotations that share a key, if exactly one of each does.
class Matcher {
 public:
  using Keys = std::vector<std::string> (*)(std::string_view path);

  Matcher(const Scan& scan, Keys keys) : scan_(scan), keys_(keys) {
    for (std::size_t i = 0; i < scan.annotations.size(); ++i) {
      for (auto& key : keys(scan.annotations[i])) by_key_[std::move(key)].push_back(i);
    }
  }

  // An annotation that becomes doubtful after it was paired loses its image at the end.
  Pairing pair() {
    Pairing pairing;
    pairing.annotation_of.assign(scan_.images.size(), kNone);
    std::vector<std::size_t> image_of(scan_.annotations.size(), kNone);
    std::vector<bool> doubted(scan_.annotations.size());
    const auto doubt = [&](std::size_t annotation, const std::string& reason) {
      if (!doubted[annotation]) pairing.doubts.push_back({annotation, reason});
      doubted[annotation] = true;
    };
    for (std::size_t i = 0; i < scan_.images.size(); ++i) {
      const std::vector<std::size_t> found = candidates(scan_.images[i]);
      if (found.size() == 1 && image_of[found[0]] == kNone) {
        image_of[found[0]] = i;
        pairing.annotation_of[i] = found[0];
      } else if (found.size() == 1) {
        doubt(found[0], "it could belong to " + image(image_of[found[0]]) + " and to " + image(i));
      } else {
        for (const std::size_t one : found) doubt(one, image(i) + " has several annotations");
      }
    }
    for (auto& annotation : pairing.annotation_of) {
      if (annotation != kNone && doubted[annotation]) annotation = kNone;
      pairing.paired += annotation == kNone ? 0 : 1;
    }
    return pairing;
  }

 private:
  // The distinct annotations that share a key with this image, at most two: two already make it
  // ambiguous.
  std::vector<std::size_t> candidates(std::string_view image) const {
    std::vector<std::size_t> found;
    for (const auto& key : keys_(image)) {
      const auto with_key = by_key_.find(key);
      if (with_key == by_key_.end()) continue;
      for (const std::size_t annotation : with_key->second) {
        if (std::find(found.begin(), found.end(), annotation) == found.end()) found.push_back(annotation);
        if (found.size() == 2) return found;
      }
    }
    return found;
  }
  [[nodiscard]] std::string image(std::size_t i) const { return std::string(scan_.images[i]); }

  const Scan& scan_;
  Keys keys_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_key_;
};

// Where the first element's name begins, after a byte order mark, blanks, comments and
// declarations; npos if there is none. This is just enough XML to find the root's name near the
// beginning of a file; xml_text.cpp checks documents properly.
std::size_t first_element(std::string_view text) {
  for (auto at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const std::string_view tag = text.substr(at);
    if (!tag.starts_with("<?") && !tag.starts_with("<!")) return at + 1;
    const std::string_view end = tag.starts_with("<!--") ? "-->" : ">";
    at = text.find(end, at);
    if (at == std::string_view::npos) break;
  }
  return std::string_view::npos;
}

}  // namespace

std::size_t AnnotationLookup::Place::operator()(std::string_view place) const noexcept {
  return std::hash<std::string_view>{}(place);
}

std::size_t AnnotationLookup::Place::operator()(std::size_t annotation) const {
  return (*this)(std::string_view(place_of_path(annotations[annotation])));
}

bool AnnotationLookup::Place::operator()(std::size_t a, std::size_t b) const {
  return place_of_path(annotations[a]) == place_of_path(annotations[b]);
}

bool AnnotationLookup::Place::operator()(std::string_view place, std::size_t annotation) const {
  return place_of_path(annotations[annotation]) == place;
}

bool AnnotationLookup::Place::operator()(std::size_t annotation, std::string_view place) const {
  return (*this)(place, annotation);
}

// If several annotations have the same place, the first is kept, which is the representative of the
// others.
AnnotationLookup::AnnotationLookup(std::span<const std::string_view> annotations)
    : places_(0, Place{annotations}, Place{annotations}) {
  places_.reserve(annotations.size());
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    has_folders_ = has_folders_ || ("/" + place_of_path(annotations[i])).find("/Annotations/") != std::string::npos;
    places_.insert(i);
  }
}

std::size_t AnnotationLookup::at(std::string_view place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? kNone : *found;
}

std::size_t AnnotationLookup::representative(std::string_view annotation) const {
  return at(place_of_path(annotation));
}

// Searches from the image's folder upwards. The nearest Annotations folder wins: first a child of
// the folder, then a sibling.
std::size_t AnnotationLookup::find(std::string_view image) const {
  const std::string place = place_of_path(image);
  if (const auto found = at(place); found != kNone || !has_folders_) return found;
  // `above` ends with '/' or is empty; `below` is what follows it.
  std::string_view above = std::string_view(place).substr(0, place.rfind('/') + 1);
  for (;;) {
    const std::string folder = std::string(above).append(kFolder).append("/");
    if (const auto found = at(folder + place.substr(above.size())); found != kNone) return found;
    if (above.empty()) return kNone;
    const std::size_t below = above.size();
    above = above.substr(0, above.substr(0, below - 1).rfind('/') + 1);
    const std::string sibling = std::string(above).append(kFolder).append("/");
    if (const auto found = at(sibling + place.substr(below)); found != kNone) return found;
  }
}

// Doubts count as a result, so that the next, weaker rule is not tried.
Pairing pair_annotations(const Scan& scan) {
  Pairing pairing = pair_by_place(scan);
  if (pairing.paired > 0 || scan.annotations.empty()) return pairing;
  pairing = Matcher(scan, keys_of).pair();
  if (pairing.paired > 0 || !pairing.doubts.empty()) return pairing;
  return Matcher(scan, stem_alone).pair();
}

// CVAT's root is "annotations", so the character after the name is checked too.
bool is_voc_annotation(const std::string& path) {
  constexpr std::string_view kRoot = "annotation";
  try {
    const auto bytes = store::load_file(path, kLargestAnnotationFile);
    const std::string_view text = as_text(bytes);
    const std::size_t name = first_element(text);
    if (name == std::string_view::npos || !text.substr(name).starts_with(kRoot)) return false;
    const std::string_view rest = text.substr(name + kRoot.size());
    return rest.find_first_of(" \t\r\n>") == 0 && rest.find("<object") != std::string_view::npos;
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(path, error);
    return false;
  }
}

namespace {

// Which images have an annotation that no other image has: these are no masks, whatever their names. The mask of x.jpg
// shares x.xml with it.
class OwnAnnotations {
 public:
  explicit OwnAnnotations(const Scan& scan) : annotations_(scan.annotations.view()), lookup_(annotations_) {
    for (const auto other : scan.others) {
      if (other.ends_with(".json")) jsons_.insert(without_extension(other));
    }
    if (annotations_.empty()) return;
    images_of_.resize(annotations_.size());
    for (const auto image : scan.images) {
      if (const auto found = lookup_.find(image); found != kNone && images_of_[found] < 2) ++images_of_[found];
    }
  }

  // "masks/1.png" has no part in annotations/1.xml although images/1.png may be missing; "masked/images/1.png" has one
  // in masked/annotations/1.xml.
  [[nodiscard]] bool has(std::string_view image) const {
    // Of labelme, which has one for each image; a lone x_mask.json is about the mask.
    const std::string_view place = without_extension(image);
    const std::string_view of = without_mask_word(place);
    if (jsons_.contains(place) && (of == place ? !has_mask_folder(parent_folder(image)) : jsons_.contains(of)))
      return true;
    const auto found = annotations_.empty() ? kNone : lookup_.find(image);
    if (found == kNone || images_of_[found] != 1) return false;
    const std::string folders = std::string(parent_folder(image)) + "/";
    const std::string others = std::string(parent_folder(annotations_[found])) + "/";
    const std::string shared(folders.begin(), std::ranges::mismatch(folders, others).in1);
    return !has_mask_folder(folders.substr(shared.rfind('/') + 1));
  }

 private:
  std::span<const std::string_view> annotations_;
  AnnotationLookup lookup_;
  std::vector<std::uint8_t> images_of_;  // by annotation; 2: several
  std::unordered_set<std::string_view> jsons_;
};

}  // namespace

// A mask is hardly ever a JPEG file, because lossy compression would change its classes. So only
// other files are candidates: beside a JPEG file of the same name, beside any image whose name lacks
// the word "mask" or the like, and where there are annotations.
void leave_out_masks(Scan& scan, const std::function<bool(std::string_view image)>& has_own) {
  if (std::ranges::all_of(scan.images, is_jpeg_name)) return;
  const auto has_mask_word = [](std::string_view image) {
    const std::string_view place = without_extension(image);
    return !is_jpeg_name(image) && without_mask_word(place) != place;
  };
  const bool may_have_masks = std::ranges::any_of(scan.images, has_mask_word);  // else millions of places need no set
  std::unordered_set<std::string_view> places;
  std::unordered_set<std::string_view> jpegs;
  std::unordered_set<std::string_view> jpeg_stems;
  for (const auto image : scan.images) {
    if (may_have_masks) places.insert(without_extension(image));
    if (!is_jpeg_name(image)) continue;
    jpegs.insert(without_extension(image));
    if (!scan.annotations.empty()) jpeg_stems.insert(stem_of(image));
  }
  std::optional<OwnAnnotations> own;  // made for the first candidate: most trees have none
  const auto is_annotated = [&](std::string_view image) {
    if (!own) own.emplace(scan);
    return own->has(image) || (has_own && has_own(image));
  };
  const auto is_of_jpeg = [&](std::string_view image) {
    return !is_jpeg_name(image) && jpegs.contains(without_extension(image));
  };
  const auto is_mask = [&](std::string_view image) {
    if (is_jpeg_name(image)) return false;
    const std::string_view place = without_extension(image);
    if (const auto of = without_mask_word(place); of != place && places.contains(of)) return !is_annotated(image);
    if (scan.annotations.empty()) return false;
    return (jpeg_stems.contains(stem_of(image)) || has_mask_folder(parent_folder(image))) && !is_annotated(image);
  };
  PathList images;
  for (const auto image : scan.images) {
    if (!is_of_jpeg(image) && !is_mask(image)) {
      images.add(image);
      continue;
    }
    const std::string_view reason = is_of_jpeg(image) ? kBesideJpeg : "taken for a mask of another image";
    scan.unusable.push_back({.path = std::string(image), .reason = std::string(reason), .bad = false});
  }
  scan.images = std::move(images);
}

// Candidates are opened only until one turns out to be a VOC annotation.
void adopt_bare_annotations(const std::string& root, Scan& scan) {
  const auto is_bare = [](std::string_view path) { return base_name(path).find('.') == std::string_view::npos; };
  if (!scan.annotations.empty() || std::none_of(scan.others.begin(), scan.others.end(), is_bare)) return;
  std::unordered_set<std::string_view> stems;
  for (const auto image : scan.images) stems.insert(stem_of(image));
  const auto is_candidate = [&](std::string_view path) { return is_bare(path) && stems.contains(base_name(path)); };
  const auto is_voc = [&](std::string_view path) {
    return is_candidate(path) && is_voc_annotation(join_path(root, path));
  };
  if (std::none_of(scan.others.begin(), scan.others.end(), is_voc)) return;
  PathList others;
  for (const auto path : scan.others) (is_candidate(path) ? scan.annotations : others).add(path);
  scan.others = std::move(others);
}

}  // namespace forebay::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "scan.hpp"

namespace forebay::data {

// Finds an image's annotation by name alone. For the image A/B/x.jpg these places are tried, nearest first: A/B/x.xml,
// then for each folder on the way up a folder named Annotations (in any case) in it, containing the same relative path,
// with or without its first folder: A/B/Annotations/x.xml, A/Annotations/x.xml (beside B), A/Annotations/B/x.xml,
// Annotations/B/x.xml (beside A, mirrored), Annotations/A/B/x.xml.
class AnnotationLookup {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  // REQUIRES: `annotations` outlives the lookup.
  explicit AnnotationLookup(std::span<const std::string_view> annotations);
  // Index of the image's annotation, or kNone.
  [[nodiscard]] std::size_t find(std::string_view image) const;
  // Index of the annotation that find() returns for this one's name: a different one if the two differ only in the case
  // of a folder or extension.
  [[nodiscard]] std::size_t representative(std::string_view annotation) const;

 private:
  // The set holds annotation numbers; a place is derived from the path at each comparison, which takes a third of the
  // memory of storing places.
  struct Place {
    using is_transparent = void;
    std::span<const std::string_view> annotations;

    [[nodiscard]] std::size_t operator()(std::string_view place) const noexcept;
    [[nodiscard]] std::size_t operator()(std::size_t annotation) const;
    [[nodiscard]] bool operator()(std::size_t a, std::size_t b) const;
    [[nodiscard]] bool operator()(std::string_view place, std::size_t annotation) const;
    [[nodiscard]] bool operator()(std::size_t annotation, std::string_view place) const;
  };

  [[nodiscard]] std::size_t at(std::string_view place) const;

  std::unordered_set<std::size_t, Place, Place> places_;
  bool has_folders_ = false;  // whether any lies in a folder named Annotations
};

// Which annotation belongs to which image, by names alone.
struct Pairing {
  // An annotation that fits several images, or one of several that fit an image.
  struct Doubt {
    std::size_t annotation = 0;
    std::string reason;  // "it could belong to train/1.jpg and to test/1.jpg"
  };
  std::vector<std::size_t> annotation_of;  // by image; AnnotationLookup::kNone if it has none
  std::vector<Doubt> doubts;
  std::size_t paired = 0;  // images with an annotation
};

// Pairs the scan's annotations with its images: by AnnotationLookup, or if that finds none at all, by stem, whatever
// the folders are called. x.xml then belongs to x.jpg if their folders differ in one component, replaced
// (train/images/x.jpg, train/annots/x.xml) or added (train/x.jpg, xml/train/x.xml). If that finds none either, it is
// enough that each stem occurs once. An annotation that matches two images goes to neither, and becomes a Doubt.
[[nodiscard]] Pairing pair_annotations(const Scan& scan);

// Whether a file looks like a VOC annotation: its root is <annotation>, and it contains an <object>. Damage further
// down is ignored. False if the file cannot be read.
[[nodiscard]] bool is_voc_annotation(const std::string& path);

// Why an image is left out that has the name of a JPEG beside it.
inline constexpr std::string_view kBesideJpeg = "beside a JPEG of its name, so taken for its mask";

// Moves images that belong to others, most of them masks, to scan.unusable, as notes. None is a JPEG. They are those
//  - beside a JPEG of the same name (x.png beside x.jpg): kBesideJpeg;
//  - beside any image, with its name and a word for masks (x_mask.png, x_mask_1.png);
//  - in a tree with annotations, with the stem of a JPEG elsewhere in the tree
//    (SegmentationClass/x.png of JPEGImages/x.jpg) or below a folder with "mask" or "segmentation" in its name. Their
//    annotation would otherwise have two images.
// None has an annotation that is its own: of VOC or labelme, or by `has_own`.
void leave_out_masks(Scan& scan, const std::function<bool(std::string_view image)>& has_own = {});

// Stanford Dogs and similar sets name their annotations x, not x.xml. If a scan has no .xml at all, files without an
// extension that are named like an image become its annotations, provided that one of them is in VOC's format.
void adopt_bare_annotations(const std::string& root, Scan& scan);

}  // namespace forebay::data

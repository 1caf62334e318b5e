#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "index_scan.hpp"

namespace forebay {

// Which annotation belongs to which image, by names alone.
struct Pairing {
  // An annotation that cannot be given to one image, or an image for which there are several annotations.
  struct Doubt {
    std::size_t annotation = 0;
    std::string reason;  // "it could belong to train/1.jpg and to test/1.jpg"
  };
  std::vector<std::size_t> annotation_of;  // by image; AnnotationLookup::kNone without
  std::vector<Doubt> doubts;
  std::size_t paired = 0;  // images with an annotation
};

// Pairs the scan's annotations with its images: where AnnotationLookup looks, and if it finds none at all, by stem.
// Then folders may be called anything. x.xml belongs to x.jpg when their folders are the same but for one component,
// replaced (train/images/x.jpg, train/annots/x.xml) or added (train/x.jpg, xml/train/x.xml); when that finds none
// either, when either stem is there once only. What two could claim is given to neither and is a doubt.
[[nodiscard]] Pairing pair_annotations(const Scan& scan);

// Whether a file is a VOC annotation as far as its text shows: the root is <annotation>, and an <object> is in it.
// Files that are damaged further down still are. False when it cannot be read.
[[nodiscard]] bool is_voc_annotation(const std::string& path);

// Stanford Dogs and its like name their annotations x, not x.xml. Where a scan has no .xml at all, files without an
// extension that are named like an image become its annotations if one of them is VOC's.
void adopt_bare_annotations(const std::string& root, Scan& scan);

}  // namespace forebay

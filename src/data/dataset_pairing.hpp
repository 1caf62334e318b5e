#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "index_scan.hpp"

namespace forebay {

// Which annotation belongs to which image, by names alone.
struct Pairing {
  // An annotation that fits several images, or one of several that fit an image.
  struct Doubt {
    std::size_t annotation = 0;
    std::string reason;  // "it could belong to train/1.jpg and to test/1.jpg"
  };
  std::vector<std::size_t> annotation_of;  // by image; AnnotationLookup::kNone without
  std::vector<Doubt> doubts;
  std::size_t paired = 0;  // images with an annotation
};

// Pairs the scan's annotations with its images: where AnnotationLookup looks, and if it finds none at all, by stem,
// whatever the folders are called. x.xml then belongs to x.jpg if their folders differ in one component, replaced
// (train/images/x.jpg, train/annots/x.xml) or added (train/x.jpg, xml/train/x.xml). If that finds none either, it is
// enough that each stem occurs once. What two could claim goes to neither and is a doubt.
[[nodiscard]] Pairing pair_annotations(const Scan& scan);

// Whether a file looks like a VOC annotation: its root is <annotation>, and it contains an <object>. Damage further
// down does not matter. False if the file cannot be read.
[[nodiscard]] bool is_voc_annotation(const std::string& path);

// Stanford Dogs and similar sets name their annotations x, not x.xml. If a scan has no .xml at all, files without an
// extension that are named like an image become its annotations, provided that one of them is in VOC's format.
void adopt_bare_annotations(const std::string& root, Scan& scan);

}  // namespace forebay

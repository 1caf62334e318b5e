#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "index_build.hpp"

namespace forebay {

// Finds an image's annotation by name alone. For the image A/B/x.jpg these places are looked at, nearest first:
// A/B/x.xml, then for each folder on the way up a folder named Annotations (in any case) in it, holding the same path
// below, with or without the first folder of that path: A/B/Annotations/x.xml, A/Annotations/x.xml (beside B),
// A/Annotations/B/x.xml, Annotations/B/x.xml (beside A, mirrored), Annotations/A/B/x.xml.
class AnnotationLookup {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  // REQUIRES: `annotations` outlives the lookup.
  explicit AnnotationLookup(std::span<const std::string_view> annotations);
  // Index of the image's annotation, or kNone.
  [[nodiscard]] std::size_t find(std::string_view image) const;
  // Index of the annotation that stands for this one's name; another when two differ in the case of a folder or of
  // their extension only.
  [[nodiscard]] std::size_t representative(std::string_view annotation) const;

 private:
  // An annotation stands in the set by its number; its place is derived from its path whenever it is compared, which
  // takes a third of the memory of keeping the places.
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

// Annotation files with the images they belong to.
struct AnnotatedFiles {
  std::string root;                               // stands before the annotations' paths
  std::span<const std::string_view> annotations;  // sorted
  std::string image_root;                         // stands before the images' paths
  std::span<const std::string_view> images;       // as the table shall name them
  std::vector<std::size_t> annotation_of;         // by image; AnnotationLookup::kNone without
  std::vector<bool> wanted;                       // by annotation: to be parsed
};

// Parses the wanted annotations in parallel and adds a sample for each usable object of each image, in order of images
// and, within, of objects. Sets the classes and the counts; logs objects and annotations that cannot be used.
void add_annotated_files(const BuildContext& context, const AnnotatedFiles& files, IndexDraft& draft);

}  // namespace forebay

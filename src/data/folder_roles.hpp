#pragma once

#include "build.hpp"
#include "scan.hpp"

namespace forebay::data {

// For format = "auto": throws ConfigError if the top folders of a tree, which would become its classes, are named like
// the parts of a dataset: splits (train, val, test), images, or what belongs to images (labels, masks, annotations).
// The error shows what to read instead, and how to read them as classes all the same. A few such names among many
// others are classes.
void refuse_roles_as_classes(const BuildContext& context, const Scan& scan);

// The folders directly in `folder` ("" is the root) that have images in or below them, sorted.
[[nodiscard]] std::vector<std::string_view> folders_with_images(const Scan& scan, std::string_view folder);

// Whether it is a list of a split, as Pascal VOC and ILSVRC have them: "ImageSets/Main/train.txt", absolute or not.
[[nodiscard]] bool is_split_list(std::string_view path) noexcept;

// What to say of a tree of annotated images that has several splits: which there are, and how to choose one. Empty
// where there is none.
[[nodiscard]] std::string remark_on_splits(const DatasetOptions& options, const Scan& scan);

}  // namespace forebay::data

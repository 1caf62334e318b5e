#pragma once

#include <span>
#include <string>
#include <string_view>

#include "build.hpp"
#include "scan.hpp"

namespace forebay::data {

// For format = "auto": throws ConfigError if the top folders of a tree, which would become its classes, are named like
// the parts of a dataset: splits (train, val, test), images, or what belongs to images (labels, masks, annotations).
// The error says what to read instead, and how to use them as classes nevertheless. A few such names among many others
// are accepted as classes.
void refuse_roles_as_classes(const BuildContext& context, const Scan& scan);

// The folders directly in `folder` ("" is the root) that have images in or below them, sorted.
[[nodiscard]] std::vector<std::string_view> folders_with_images(const Scan& scan, std::string_view folder);

// Whether it is a split list, as in Pascal VOC and ILSVRC: "ImageSets/Main/train.txt", absolute or not.
[[nodiscard]] bool is_split_list(std::string_view path) noexcept;

// The part of a dataset that a word of a file's name says, in one spelling: "train" for "Trn-000.tar", "val" for
// "valid2017.tfrecord"; "" if none does. Of folds and splits with the number: "fold0".
[[nodiscard]] std::string part_in_name(std::string_view name);

// A remark on files that are all read although their names say different parts, or only some of them say one. Empty if
// not, and if the pattern that they match ("" = none) names parts itself: "{train,val}-*.tar".
[[nodiscard]] std::string remark_on_parts(std::span<const std::string> paths, std::string pattern);

// A remark on a tree of annotated images with several splits: which there are, and how to choose one. Empty if there
// are none.
[[nodiscard]] std::string remark_on_splits(const DatasetOptions& options, const Scan& scan);

}  // namespace forebay::data

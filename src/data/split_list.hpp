#pragma once

#include <deque>
#include <string>
#include <vector>

#include "build.hpp"
#include "list.hpp"

namespace forebay::data {

// Lists as Pascal VOC and ILSVRC have them: ROOT/ImageSets/Main/train.txt names images without folder and extension,
// which are ROOT/JPEGImages/x.jpg; the images of ROOT/ImageSets/CLS-LOC/train_cls.txt are
// ROOT/Data/CLS-LOC/train/x.JPEG. Their annotations lie below ROOT/Annotations.
//
// Makes the records of such a list those of images below its ROOT, which it returns: "" if the list is none, and
// nothing is changed. Images that are not there are logged. Texts are added to `texts`, of which the records are views.
// Throws ConfigError where no folder of images is found, and for a list of a single class, which says of each image
// whether it shows one.
[[nodiscard]] std::string resolve_split_list(const BuildContext& context, std::vector<ListRecord>& records,
                                             std::deque<std::string>& texts, SkipLog& skipped);

}  // namespace forebay::data

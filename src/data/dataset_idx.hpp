#pragma once

#include <memory>

#include "index_image.hpp"

namespace forebay {

// The dataset of an index of an idx file, which is opened at the first read. Throws Error when the content is not one
// that build_idx() makes, as far as that shows without reading the labels; each is checked when it is used.
[[nodiscard]] std::unique_ptr<Dataset> restore_idx_dataset(std::shared_ptr<const IndexImage> image);

}  // namespace forebay

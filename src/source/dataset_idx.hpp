#pragma once

#include "index_format.hpp"

#include <memory>

namespace forebay {

// Undoes serialize() of an idx dataset. The images file is opened at the first read. Throws Error when the content is
// not one that serialize() makes.
[[nodiscard]] std::unique_ptr<Dataset> restore_idx_dataset(const OpenedIndex& index);

}  // namespace forebay

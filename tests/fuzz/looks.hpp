#pragma once

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

namespace forebay::fuzz {

// Reads everything that the first samples have to say. Errors of samples are theirs to have.
void look_at(const Dataset& dataset);

// Indexes the path, and looks at what the index promises, before and after it was written and read. False: refused.
bool use_path(const DatasetOptions& options);

}  // namespace forebay::fuzz

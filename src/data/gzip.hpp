#pragma once

#include "idx_file.hpp"

namespace forebay {

// The contents of a gzip file, member after member, decompressed as they are read. Data after the last member is left
// alone, as gzip itself does. REQUIRES: `file` outlives the source.
[[nodiscard]] std::unique_ptr<ByteSource> open_gzip(const OpenFile& file);

}  // namespace forebay

#include "codec_files.hpp"

namespace forebay::testing {

std::vector<CodecFile> tiff_files() { return {}; }

std::vector<CodecFile> large_tiff_files(std::int32_t /*side*/) { return {}; }

}  // namespace forebay::testing

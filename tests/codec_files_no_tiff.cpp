#include "codec_files.hpp"

namespace forebay::testing {

std::vector<CodecFile> tiff_files() { return {}; }

}  // namespace forebay::testing

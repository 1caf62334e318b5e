#include "codec_files.hpp"

namespace forebay::testing {

std::vector<CodecFile> webp_files() { return {}; }

}  // namespace forebay::testing

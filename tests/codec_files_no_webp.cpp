#include "codec_files.hpp"

namespace forebay::testing {

std::vector<CodecFile> webp_files() { return {}; }

std::vector<CodecFile> large_webp_files(std::int32_t /*side*/) { return {}; }

}  // namespace forebay::testing

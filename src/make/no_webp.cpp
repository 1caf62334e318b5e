#include "codecs.hpp"
#include "signature.hpp"

namespace forebay::make {

const CodecKind codecs::webp{.matches = starts_as_webp, .make = nullptr, .library = "libwebp"};

}  // namespace forebay::make

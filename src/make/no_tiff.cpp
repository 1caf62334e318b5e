#include "codecs.hpp"
#include "signature.hpp"

namespace forebay::make {

const CodecKind codecs::tiff{.matches = starts_as_tiff, .make = nullptr, .library = "libtiff"};

}  // namespace forebay::make

#pragma once

#include <doctest/doctest.h>

#include "jpeg/pixel_kernels.hpp"

namespace forebay::testing {

// What a JpegDecoder takes. Runs a test case twice: with Forebay's own decoding of plain files, and with libjpeg-turbo
// alone. To be called once in it.
inline const PixelKernels* either_way() {
  SUBCASE("own") {
    const PixelKernels* const kernels = trusted_pixel_kernels();
    REQUIRE(kernels != nullptr);
    return kernels;
  }
  SUBCASE("libjpeg-turbo") {}
  return nullptr;
}

}  // namespace forebay::testing

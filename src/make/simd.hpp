#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace forebay {

// Fill in what is compiled for `target`, one of Highway's. Any thread may call.
void set_resize_kernels(std::int64_t target, Kernels& kernels);
void set_convert_kernel(std::int64_t target, Kernels& kernels);

}  // namespace forebay

#pragma once

#include <forebay/options.hpp>

#include "measure/run_log.hpp"

namespace forebay {

// Every key with its value: what the runs of a comparison may differ in. In values.cpp.
[[nodiscard]] Settings settings_of(const Options& options);

}  // namespace forebay

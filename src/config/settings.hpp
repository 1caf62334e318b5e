#pragma once

#include <forebay/options.hpp>

#include "measure/run_log.hpp"

namespace forebay::config {

// Every key with its value: what the runs of a comparison may differ in. In values.cpp.
[[nodiscard]] measure::Settings settings_of(const Options& options);

}  // namespace forebay::config

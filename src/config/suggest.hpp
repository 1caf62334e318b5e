#pragma once

#include <string>
#include <string_view>

namespace forebay::config {

// Sentences for names that the schema does not know. They name what was probably meant, else what there is.

// A key of a known section ("" = top of the file): "unknown key policy.beto: did you mean policy.beta?"
[[nodiscard]] std::string unknown_key(std::string_view section, std::string_view name);
// "unknown section [polcy]: did you mean [policy]?"
[[nodiscard]] std::string unknown_section(std::string_view name);

}  // namespace forebay::config

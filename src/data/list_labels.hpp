#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset_list.hpp"

namespace forebay {

// Images with what their labels say: second is the label, "" when it says nothing.
using Entries = std::vector<ListRecord>;

[[nodiscard]] std::optional<std::int64_t> integer_in(std::string_view text);

// Labels are class numbers when all of them are integers, unless the given classes are called like that.
[[nodiscard]] bool are_numbers(const Entries& entries, const std::vector<std::string>& given);

// A label that is no class: a number to be learned (0.73) or a set of labels ("cat|dog", "1 0 1"). Throws ConfigError
// that names `file`, the image and what is supported; `given` classes may be called like that.
void refuse_labels_of_other_kinds(const Entries& entries, const std::vector<std::string>& given,
                                  const std::string& file);

}  // namespace forebay

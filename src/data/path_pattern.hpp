#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// Whether the path stands for several files: it has a brace or a wildcard.
[[nodiscard]] bool is_path_pattern(std::string_view path) noexcept;

// The files that a pattern stands for, as a shell writes it: "train-{0000..0009}.tar" is ten names, in this order,
// whether there are such files or not; "{train,val}.tar" is two; "*", "?" and "[a-z]" stand for the files that there
// are, sorted bytewise. A file that it stands for twice comes once. Throws ConfigError with what is wrong: a range that
// is none, more than a million names.
[[nodiscard]] std::vector<std::string> expand_path_pattern(const std::string& pattern);

}  // namespace forebay

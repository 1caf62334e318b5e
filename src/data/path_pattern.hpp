#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::data {

// Whether the path may stand for several files: it contains a brace or a wildcard.
[[nodiscard]] bool is_path_pattern(std::string_view path) noexcept;

// The deepest folder that contains all files which the pattern could match.
[[nodiscard]] std::string folder_of_pattern(std::string_view pattern);

// Expands a pattern as a shell would: "train-{0000..0009}.tar" is ten names, in this order, whether the files exist or
// not; "{train,val}.tar" is two; "*", "?" and "[a-z]" match existing files, sorted bytewise. Duplicates are removed. In
// a URL only braces are expanded. Throws ConfigError for an invalid range or more than a million names.
[[nodiscard]] std::vector<std::string> expand_path_pattern(const std::string& pattern);

// The pattern that names exactly these files: those read in a folder, and those below it, which are at one depth and
// sorted. "" if there is none. REQUIRES: `below` is not empty.
[[nodiscard]] std::string pattern_of_files(const std::string& folder, std::span<const std::string> read,
                                           std::vector<std::string> below);

}  // namespace forebay::data

#pragma once

#include <filesystem>
#include <string>

namespace forebay {

// Files that a command writes at its end; "-" is standard output.

// Throws ConfigError that names `flag` and the path when the file cannot be written, as far as that can be known
// without touching it: so that a run does not end with nowhere to put its result. `makes_folder`: what writes it
// creates its folder. An empty path is no file.
void require_writable(const std::string& flag, const std::filesystem::path& file, bool makes_folder = false);

// `text` and a newline. Throws Error that names `flag` and the path.
void write_output(const std::string& flag, const std::filesystem::path& file, const std::string& text);

}  // namespace forebay

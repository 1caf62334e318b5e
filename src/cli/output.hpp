#pragma once

#include <filesystem>
#include <string>

namespace forebay {

// Files that a command writes at the end; "-" is standard output.

// Throws ConfigError naming `flag` and the path if the file cannot be written, as far as that can be told without
// touching it, so that a run does not end with nowhere to put its result. `makes_folder`: the folder will be created.
// An empty path means no file.
void require_writable(const std::string& flag, const std::filesystem::path& file, bool makes_folder = false);

// Writes `text` and a newline. Throws Error naming `flag` and the path.
void write_output(const std::string& flag, const std::filesystem::path& file, const std::string& text);

}  // namespace forebay

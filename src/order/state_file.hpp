#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace forebay {

// Atomically replaces the file by one that holds `text`: if the process or the machine dies at any moment, the file is
// as it was or has all of the text. Once the function has returned it has the text. Creates the folder. If the path is
// a symbolic link, its target is replaced, and the link stays. What is not a regular file (a directory, a FIFO, a
// device) is never replaced. Until then there is a file FILE.saving-XXXXXX beside it; the next save removes all of
// those that killed jobs left behind. So two jobs cannot save to one file: either may get an Error. Throws Error naming
// the file and the system's reason. The file is then as it was, unless only the last step failed, which makes the
// folder's new entry survive a crash of the machine.
void write_state(const std::filesystem::path& file, std::string_view text);

// The text of the file; nothing if it does not exist. Throws ConfigError naming the file and the reason when it cannot
// be read or cannot be a state: a folder, a device, more than 16 MiB.
[[nodiscard]] std::optional<std::string> read_state(const std::filesystem::path& file);

}  // namespace forebay

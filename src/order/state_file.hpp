#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace forebay {

// Replaces the file by one that holds `text`, in one step: whenever the process or the machine ends, the file is as it
// was or has all of the text, and when this function has returned it has the text. Creates the folder. Where the path
// is a symbolic link, the file that it leads to is replaced, and the link stays. What is there and is no regular file
// (a directory, a FIFO, a device) is never replaced. Meanwhile there is a file FILE.saving-XXXXXX beside it; of those
// that killed jobs left behind, the next save removes all. So two jobs cannot save to one file: either may get an
// Error. Throws Error naming the file and the system's reason; then the file is as it was, except when all that failed
// is to make the folder's new entry outlive a crash of the machine.
void write_state(const std::filesystem::path& file, std::string_view text);

// The text of the file; nothing when there is none. Throws ConfigError naming the file and the reason when it cannot be
// read or cannot be a state: a folder, a device, more than 16 MiB.
[[nodiscard]] std::optional<std::string> read_state(const std::filesystem::path& file);

}  // namespace forebay

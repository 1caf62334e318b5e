#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace forebay {

// Replaces the file by one that holds `bytes`, in one step: whenever the process or the machine ends, the file is as it
// was or has all of the bytes, and when this function has returned it has them. Meanwhile there is a file beside it,
// whose name is the file's, `suffix` and six letters or digits. Any thread. Throws Error with the step that failed and
// the system's reason, without the file's name; then the file is as it was, except when all that failed is to make the
// folder's new entry outlive a crash of the machine.
void replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes, std::string_view suffix);

// The file that a save to `path` replaces: where links lead, although there may be nothing yet. Throws Error, without
// the path's name, for a link that cannot be followed and for what is no regular file: a rename would take the place of
// a device or a FIFO.
[[nodiscard]] std::filesystem::path replaceable(const std::filesystem::path& path);

// The folder that the file is in; "." for a bare name.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace forebay

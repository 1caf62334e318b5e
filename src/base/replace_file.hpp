#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace forebay {

// Atomically replaces the file by one that holds `bytes`: if the process or the machine dies at any moment, the file is
// as it was or has all of the bytes. Once the function has returned it has them. Until then there is a temporary file
// beside it: the file's name, `suffix`, and six letters or digits. Any thread. Throws Error with the step that failed
// and the system's reason, without the file's name. The file is then as it was, unless only the last step failed, which
// makes the folder's new entry survive a crash of the machine.
void replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes, std::string_view suffix);

// The file that a save to `path` replaces: the target of links, which need not exist yet. Throws Error, without the
// path's name, for a link that cannot be followed and for anything but a regular file: a rename would replace even a
// device or a FIFO.
[[nodiscard]] std::filesystem::path replaceable(const std::filesystem::path& path);

// The folder that the file is in; "." for a bare name.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace forebay

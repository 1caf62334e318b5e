#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "file_io.hpp"

// Files that are written. Others may be able to write to the folder: under a name that Forebay made up, as
// "steps.0.jsonl" or "name.Xy12Zw", no link is followed and nothing is waited for, whatever they put there. A link
// under a name that a user gave is followed, as by a shell. New files get the permissions that the process's umask
// leaves. Any thread. Errors do not name the file.
namespace forebay {

// Throws Error with the system's reason.
void write_all(const FileDescriptor& file, std::span<const std::byte> bytes);
void write_all(const FileDescriptor& file, std::string_view text);

// A new, empty file of a made-up name. What had the name before is removed if it was a regular file or a link; a device
// is written to. Throws Error for anything else (a FIFO, a folder), and with the system's reason.
[[nodiscard]] FileDescriptor open_made(const std::filesystem::path& file);

// The file of a made-up name, to be read and appended to; made if there is none. Throws Error if it is neither a
// regular file nor a device, a link among others, and with the system's reason.
[[nodiscard]] FileDescriptor open_to_append(const std::filesystem::path& file);

// The file that a user named, emptied; made if there is none. Waits for the reader of a FIFO. Throws Error with the
// system's reason.
[[nodiscard]] FileDescriptor open_named(const std::filesystem::path& file);

// A folder that a user named, in which files with relative names are made. Below it no link is followed, whoever puts
// one there at which moment: each folder is opened from the one above it.
class OutputFolder {
 public:
  // Makes the folder. Throws Error with the system's reason.
  explicit OutputFolder(const std::filesystem::path& folder);

  // Makes the folder below this one, and those that lead to it. Returns 0, or the system's error. REQUIRES: no part of
  // `name` is "..", and it is relative; here and below
  [[nodiscard]] int make_folder(const std::filesystem::path& name) const;

  enum class IfThere : std::uint8_t { refuse, replace };
  // Makes the file and the folders that lead to it. Returns 0, or the system's error; then there is no such file, or
  // what was there before. REQUIRES: `name` is not empty
  [[nodiscard]] int write(const std::filesystem::path& name, std::span<const std::byte> bytes, IfThere if_there) const;

 private:
  [[nodiscard]] FileDescriptor reach(const std::filesystem::path& name) const noexcept;

  FileDescriptor folder_;
};

// Atomically replaces the file by one that holds `bytes`: if the process or the machine dies at any moment, the file is
// as it was or has all of the bytes. Once the function has returned it has them. Until then there is a temporary file
// beside it: the file's name, `suffix`, and six letters or digits. A file that was there leaves its permissions to the
// new one. Throws Error with the step that failed and the system's reason. The file is then as it was, unless only the
// last step failed, which makes the folder's new entry survive a crash of the machine.
void replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes, std::string_view suffix);
// The same for bytes that need not be in memory together: `fill` hands them over, piece after piece.
using PieceWriter = std::function<void(std::span<const std::byte> piece)>;
void replace_file(const std::filesystem::path& file, const std::function<void(const PieceWriter& write)>& fill,
                  std::string_view suffix);

// Makes what was created or renamed in the file's folder survive a crash of the machine, where the file system can do
// that. Throws Error with the reason.
void sync_folder_of(const std::filesystem::path& file);

// The file that a save to `path` replaces: the target of links, which need not exist yet. Throws Error for a link that
// cannot be followed, for one of another user (root's and those of the folder's owner aside, as the system has it in
// /tmp), and for anything but a regular file: a rename would replace even a device or a FIFO.
[[nodiscard]] std::filesystem::path replaceable(const std::filesystem::path& path);

}  // namespace forebay

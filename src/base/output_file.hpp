#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "file_io.hpp"

// Writing files. Others may have write access to the folder: for a name that Forebay generated, such as "steps.0.jsonl"
// or "name.Xy12Zw", no link is followed and nothing is waited for, whatever they put there. A link under a name given
// by the user is followed, as by a shell. New files get the permissions that the process's umask leaves. Any thread.
// Errors do not name the file.
namespace forebay {

// Why nothing is written under this name, "" if it may be: it is empty, or names an object in a store ("s3://..."),
// which is read and never written: as a file it would be one below a folder "s3:". The functions below refuse such
// names.
[[nodiscard]] std::string_view problem_of_output(std::string_view path) noexcept;

// Throws Error with the system's reason.
void write_all(const FileDescriptor& file, std::span<const std::byte> bytes);
void write_all(const FileDescriptor& file, std::string_view text);

// Opens a new, empty file under a generated name. An existing regular file or link of that name is removed; a device is
// written to. Throws Error for anything else (a FIFO, a folder), and with the system's reason.
[[nodiscard]] FileDescriptor open_made(const std::filesystem::path& file);

// Opens the file of a generated name for reading and appending, creating it if necessary. Throws Error if it is neither
// a regular file nor a device (such as a link), and with the system's reason.
[[nodiscard]] FileDescriptor open_to_append(const std::filesystem::path& file);

// Opens the file that a user named and truncates it, creating it if necessary. Waits for the reader of a FIFO. Throws
// Error with the system's reason.
[[nodiscard]] FileDescriptor open_named(const std::filesystem::path& file);

// A folder that a user named, in which files with relative names are created. Below it no link is followed, whenever
// somebody puts one there: each folder is opened relative to the one above it.
class OutputFolder {
 public:
  // Makes the folder. Throws Error with the system's reason.
  explicit OutputFolder(const std::filesystem::path& folder);

  // Creates the folder below this one, with its parents. Returns 0 or the system's error. REQUIRES (also below): `name`
  // is relative, and no part of it is "..".
  [[nodiscard]] int make_folder(const std::filesystem::path& name) const;

  enum class IfThere : std::uint8_t { refuse, replace };
  // Creates the file, with its parent folders. Returns 0 or the system's error, in which case what was there before is
  // unchanged, or there is no such file. REQUIRES: `name` is not empty.
  [[nodiscard]] int write(const std::filesystem::path& name, std::span<const std::byte> bytes, IfThere if_there) const;

 private:
  [[nodiscard]] FileDescriptor reach(const std::filesystem::path& name) const noexcept;

  FileDescriptor folder_;
};

// Atomically replaces the file by one that holds `bytes`: if the process or the machine dies at any moment, the file is
// either unchanged or complete; once the function has returned, it is complete. Until then there is a temporary file
// beside it, named by the file's name, `suffix`, and six letters or digits. The new file takes over the old one's
// permissions. Throws Error with the step that failed and the system's reason. The file is then unchanged, unless only
// the last step failed, which makes the folder's new entry survive a crash of the machine.
void replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes, std::string_view suffix);
// The same for bytes that need not all be in memory: `fill` passes them on piece by piece.
using PieceWriter = std::function<void(std::span<const std::byte> piece)>;
void replace_file(const std::filesystem::path& file, const std::function<void(const PieceWriter& write)>& fill,
                  std::string_view suffix);

// Makes files created or renamed in the file's folder survive a crash of the machine, if the file system supports that.
// Throws Error with the reason.
void sync_folder_of(const std::filesystem::path& file);

// The file that a save to `path` replaces: the target of links, which need not exist yet. Throws Error for a link that
// cannot be followed, for a link of another user (except root and the folder's owner, like the kernel in /tmp), and for
// anything but a regular file: a rename would replace even a device or a FIFO.
[[nodiscard]] std::filesystem::path replaceable(const std::filesystem::path& path);

}  // namespace forebay

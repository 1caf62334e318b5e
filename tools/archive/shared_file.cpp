// Makes a file once, though several processes on several machines may want to: a manifest, or
// tables.
//
// Where the file system has locks, one process makes it while the others wait (PartFile). Where it
// has none, several may make it at once; link() then lets exactly one of them win, and the others
// use its file. What they make is the same, or is not used.

#include "shared_file.hpp"

#include <unistd.h>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "part_file.hpp"

namespace forebay::archive {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code unknown;
  return fs::exists(file, unknown);
}

// Gives the bytes the name, unless another process was faster.
// First under a name of its own, whole and synced, then linked: nobody ever sees a part.
void publish(const fs::path& file, std::span<const std::byte> bytes) {
  std::random_device random;
  const fs::path own = file.native() + "." + hex((std::uint64_t{random()} << 32U) | random(), 16);
  try {
    replace_file(own, bytes, ".");
    const int linked = ::link(own.c_str(), file.c_str()) == 0 ? 0 : errno;
    // Without hard links a process that was as fast is overwritten by the same bytes.
    if (linked != 0 && !is_there(file)) fs::rename(own, file);
    ::unlink(own.c_str());
    sync_folder_of(file);
  } catch (const std::exception& error) {
    ::unlink(own.c_str());
    throw Error(file.string() + ": cannot write it: " + error.what());
  }
}

// "manifest.json.part", "manifest.json.0123456789abcdef", "manifest.json.0123456789abcdef.Xy12Zw", but nothing that
// somebody put beside it.
// Names of this scheme only, since others put files there, too.
bool is_leftover(std::string_view name, std::string_view of) {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kTemporary = kDigits + 7;
  if (!name.starts_with(of) || name.substr(of.size(), 1) != ".") return false;
  name.remove_prefix(of.size() + 1);
  if (name == "part") return true;
  const bool has_digits = name.substr(0, kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return has_digits && (name.size() == kDigits || (name.size() == kTemporary && name[kDigits] == '.'));
}

// What killed processes left. Without locks another one may just be using its own: as the file is there, it needs it
// no more.
void remove_leftovers(const fs::path& file) {
  const std::string name = file.filename().string();
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(file.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    if (is_leftover(entry->path().filename().native(), name)) found.push_back(entry->path());
  }
  for (const fs::path& each : found) ::unlink(each.c_str());
}

}  // namespace

void make_shared_file(const fs::path& file, const std::function<std::vector<std::byte>()>& make) {
  if (!is_there(file)) {
    const PartFile turn(file, PartFile::IfBusy::wait);
    if (!is_there(file)) publish(file, make());
  }
  remove_leftovers(file);
}

}  // namespace forebay::archive

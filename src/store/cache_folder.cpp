// Locks, the count of bytes, and the folders of datasets.
//
// Every process that uses the cache holds a shared lock on DIR/lock. One that gets it exclusively
// is the first, and trusts DIR/used only if all earlier ones have left in order, which a killed
// process has not. DIR/used itself is locked briefly by whoever changes it. Waits for a lock are
// bounded, because its owner may be a stopped process.
//
// Data to be removed are first renamed to DIR/gone-...: if that process is killed, the next that is
// alone removes the rest.
//
// Everything is opened anew for each use, so that a directory that was emptied fills again.

#include "cache_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <forebay/error.hpp>
#include <functional>
#include <system_error>
#include <thread>

#include "base/text.hpp"
#include "cache_entry.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAboutMark = "A cache of Forebay: ";
constexpr std::uint64_t kDiskBlock = 512;  // of st_blocks
// For the byte count. What is not subtracted remains unusable until the cache is counted again.
constexpr double kPatience_s = 10;
constexpr std::string_view kGone = "gone-";
constexpr std::size_t kLongestAbout = std::size_t{64} << 10U;

// Written by a single call, which a killed process has either made or not.
struct UsedBytes {
  std::array<char, 8> magic{'F', 'b', 'u', 's', 'e', 'd', '0', '2'};
  std::uint64_t bytes = 0;
  std::uint64_t users = 0;  // number that have not left
  std::uint64_t boot = 0;   // of the machine: what a power failure leaves is counted
  std::uint64_t is_lost = 0;
};

std::uint64_t boot_of_machine() noexcept {
  std::array<char, 36> id{};
  const FileDescriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  (void)!::read(file.get(), id.data(), id.size());
  return XXH3_64bits(id.data(), id.size());
}

std::optional<UsedBytes> read_used(const LockFile& file) noexcept {
  UsedBytes used;
  const auto got = retry_interrupted([&] { return ::pread(file.get(), &used, sizeof used, 0); });
  if (got != sizeof used || used.magic != UsedBytes().magic) return std::nullopt;
  return used;
}

void write_used(const LockFile& file, const UsedBytes& used) noexcept {
  (void)!::pwrite(file.get(), &used, sizeof used, 0);
}

// The lock is held for one read and one write of a few bytes, so a longer wait means that its owner
// was stopped. Returns false if the count is unavailable. A count that was lost with the directory
// restarts from zero until somebody may count again.
template <typename Change>
bool change_used(int folder, double patience_s, Change&& change) noexcept {
  const LockFile file = open_in(folder, "used");
  if (!file.is_open() || !lock_within(file, Lock::sole, patience_s)) return false;
  UsedBytes used = read_used(file).value_or(UsedBytes{.is_lost = 1});
  change(used);
  write_used(file, used);
  return true;
}

// Calls visit(path, status) for each entry of the data, and for what a killed process left
// unfinished beside them. Files that disappear meanwhile are skipped: others work in the same
// directory.
template <typename Visit>
void for_each_entry(const std::string& folder, Visit&& visit) {
  std::error_code error;
  constexpr auto kHow = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, kHow, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (at.depth() == 0 || ::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    visit(at->path(), status);
  }
}

// As the file system counts, because the bound limits disk space: holes take nothing.
std::uint64_t disk_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for_each_entry(folder, [&](const fs::path&, const struct stat& status) {
    bytes += static_cast<std::uint64_t>(status.st_blocks) * kDiskBlock;
  });
  return bytes;
}

// Removes a file that is no entry any more, as a run does that wants to make it. Returns the bytes
// that it took. Not a file that another process is still making, or has put in its place.
std::uint64_t remove_damaged(const fs::path& file, const CacheEntry::Missing& seen, CachedData& data) {
  struct stat status {};
  if (!seen.may_be_made || file.filename().string().starts_with("new-") || ::lstat(file.c_str(), &status) != 0 ||
      FileIdentity{status.st_dev, status.st_ino} != seen.other) {
    return 0;
  }
  ++data.damaged_files;
  return ::unlink(file.c_str()) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * kDiskBlock : 0;
}

// Removes damaged blocks, which are then read again from the store. Returns the bytes that they
// took.
std::uint64_t check_blocks(const fs::path& file, CachedData& data) {
  std::uint64_t freed = 0;
  CacheEntry::Missing missing;
  const auto entry = CacheEntry::open(AT_FDCWD, file.string(), &missing);
  if (!entry) return remove_damaged(file, missing, data);
  constexpr std::uint64_t kAtOnce = 256;
  std::vector<std::byte> bytes;
  for (std::uint64_t first = 0; first < entry->blocks(); first += kAtOnce) {
    const std::uint64_t count = std::min(kAtOnce, entry->blocks() - first);
    const auto sums = entry->sums(first, static_cast<std::size_t>(count));
    const std::uint64_t begin = first * CacheEntry::kBlock;
    bytes.resize(static_cast<std::size_t>(std::min(count * CacheEntry::kBlock, entry->object().bytes - begin)));
    std::vector<bool> is_good;
    (void)entry->read(first, {bytes}, sums, is_good);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] == 0) continue;
      ++data.blocks;
      if (is_good[i]) continue;
      ++data.damaged;
      if (entry->forget(first + i)) freed += CacheEntry::kBlock;
    }
  }
  return freed;
}

// Whether the name still refers to this file and not to one that took its place.
bool is_still_named(const LockFile& about, int folder, const std::string& name) noexcept {
  struct stat is {};
  struct stat named {};
  return ::fstat(about.get(), &is) == 0 && ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         is.st_ino == named.st_ino;
}

// Called by the process that is alone. Another can be doing the same only if DIR/lock itself was
// removed, and then both remove the same data.
bool remove_gone(const std::string& dir) {
  std::vector<fs::path> gone;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(kGone)) gone.push_back(at->path());
  }
  for (const fs::path& each : gone) fs::remove_all(each, error);
  return !gone.empty();
}

}  // namespace

void LockFile::reset() noexcept {
  if (is_own()) (void)::flock(get(), LOCK_UN);
  file_.reset();
}

bool try_lock(const LockFile& file, Lock lock) noexcept {
  const int how = (lock == Lock::sole ? LOCK_EX : LOCK_SH) | LOCK_NB;
  return retry_interrupted([&] { return ::flock(file.get(), how); }) == 0;
}

// Does not keep the lock: working on unused data may take seconds, and a run that starts would have
// to wait.
bool is_in_use(const LockFile& about) noexcept {
  if (!try_lock(about, Lock::sole)) return true;
  (void)::flock(about.get(), LOCK_UN);
  return false;
}

bool lock_within(const LockFile& file, Lock lock, double limit_s) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limit_s);
  while (!try_lock(file, lock)) {
    if (errno != EWOULDBLOCK || Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Follows no link, which may lead to somebody else's file, and opens no FIFO, which would block.
LockFile open_in(int folder, const std::string& name) noexcept {
  constexpr int kHow = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  return LockFile(FileDescriptor(retry_interrupted([&] { return ::openat(folder, name.c_str(), kHow, 0600); })));
}

// A cache may be in a place where everybody can write, such as /tmp or a scratch disk: somebody who
// had made a folder there first could read what is cached, and decide what is trained on.
FileDescriptor open_folder(int folder, const std::string& name) noexcept {
  constexpr int kHow = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  FileDescriptor file(retry_interrupted([&] { return ::openat(folder, name.c_str(), kHow); }));
  if (!file.is_open() || is_private(file.get())) return file;
  file.reset();
  errno = EPERM;
  return file;
}

CacheUse::CacheUse(const std::string& dir) {
  constexpr double kCounting_s = 60;  // of a million entries on a slow disk
  const auto refuse = [](const char* what) { throw Error(what + (": " + std::generic_category().message(errno))); };
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) refuse("it cannot be made");
  folder_ = FileDescriptor(
      retry_interrupted([&] { return ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK); }));
  if (!folder_.is_open()) refuse("it cannot be opened");
  if (!is_private(folder()))
    throw Error("another user owns it or may write there; take a directory of your own (0700)");
  lock_ = open_in(folder(), "lock");
  if (!lock_.is_open()) refuse("nothing can be written there");
  if (try_lock(lock_, Lock::sole)) count(dir);
  if (!lock_within(lock_, Lock::shared, kCounting_s)) refuse("its lock cannot be had");
  (void)change_used(folder(), kPatience_s, [](UsedBytes& used) { ++used.users; });
}

// This process is alone, so unfinished files belong to nobody. A killed process may have stored
// data that it did not count, or counted data that it did not store; after a power failure counted
// blocks may be missing, and removed files may be back.
void CacheUse::count(const std::string& dir) const {
  const bool was_removed = remove_gone(dir);
  const LockFile file = open_in(folder(), "used");
  auto used = read_used(file);
  const std::uint64_t boot = boot_of_machine();
  if (used && used->users == 0 && used->is_lost == 0 && used->boot == boot && !was_removed) return;
  used = UsedBytes{.boot = boot};
  for (const DataFolder& data : data_folders(dir)) {
    for_each_entry(data.path, [](const fs::path& path, const struct stat& /*status*/) {
      if (path.filename().string().starts_with("new-")) (void)::unlink(path.c_str());
    });
    used->bytes += disk_bytes(data.path);
  }
  write_used(file, *used);
}

// A forked process does nothing: the lock belongs to its parent.
void CacheUse::leave() noexcept {
  if (lock_.is_own()) {
    (void)change_used(folder(), kPatience_s,
                      [](UsedBytes& used) { used.users -= std::min<std::uint64_t>(used.users, 1); });
  }
  lock_.reset();
}

std::uint64_t CacheUse::held() const noexcept {
  const auto used = read_used(open_in(folder(), "used"));
  return used ? used->bytes : 0;
}

Room CacheUse::add(std::uint64_t more, std::uint64_t limit) const noexcept {
  constexpr double kReading_s = 0.2;  // then this is not kept
  auto room = Room::unknown;
  (void)change_used(folder(), kReading_s, [&](UsedBytes& used) {
    room = used.bytes + more > limit ? Room::full : Room::had;
    if (room == Room::had) used.bytes += more;
  });
  return room;
}

void CacheUse::subtract(std::uint64_t less) const noexcept {
  (void)change_used(folder(), kPatience_s, [&](UsedBytes& used) { used.bytes -= std::min(used.bytes, less); });
}

std::string data_folder_name(const std::string& data) {
  return forebay::hex(XXH3_64bits(data.data(), data.size()), 16);
}

// If somebody removes the folder between the steps, it is made again.
LockFile use_data_folder(int folder, const std::string& data) {
  const std::string name = data_folder_name(data);
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (::mkdirat(folder, name.c_str(), 0700) != 0 && errno != EEXIST) return {};
    const FileDescriptor made = open_folder(folder, name);
    if (!made.is_open() && errno != ENOENT) return {};
    LockFile about = open_in(made.get(), "about");
    if (!about.is_open() || !lock_within(about, Lock::shared, 1)) continue;
    if (!is_still_named(about, folder, name + "/about")) continue;
    const std::string text = std::string(kAboutMark) + data + "\n";
    (void)!::pwrite(about.get(), text.data(), text.size(), 0);  // notes the time, too
    return about;
  }
  return {};
}

// The directory may contain other things, too: only a folder that declares itself a cache's, under
// the name that follows from its content, is ever removed.
std::vector<DataFolder> data_folders(const std::string& dir) {
  std::vector<DataFolder> found;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    DataFolder data{.path = at->path().string(), .data = {}, .used_s = 0, .about = {}};
    const FileDescriptor folder = open_folder(AT_FDCWD, data.path);
    constexpr int kHow = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    if (folder.is_open()) data.about = LockFile(FileDescriptor(::openat(folder.get(), "about", kHow)));
    struct stat status {};
    if (!data.about.is_open() || ::fstat(data.about.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    std::string text(std::min<std::size_t>(static_cast<std::size_t>(status.st_size), kLongestAbout), '\0');
    if (::pread(data.about.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) continue;
    if (!text.starts_with(kAboutMark)) continue;
    data.data = text.substr(kAboutMark.size(), text.find('\n') - kAboutMark.size());
    if (at->path().filename() != data_folder_name(data.data)) continue;
    data.used_s = status.st_mtim.tv_sec;
    found.push_back(std::move(data));
  }
  return found;
}

std::uint64_t unused_bytes(const DataFolder& data) { return is_in_use(data.about) ? 0 : disk_bytes(data.path); }

// Renamed under the lock, so that a run that starts now makes a new folder and does not write into
// one being removed.
std::optional<std::uint64_t> remove_unused(const DataFolder& data) {
  if (!try_lock(data.about, Lock::sole) || !is_still_named(data.about, AT_FDCWD, data.path + "/about"))
    return std::nullopt;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string gone =
      fs::path(data.path).parent_path() / (std::string(kGone) + std::to_string(::getpid()) + "-" + std::to_string(now));
  if (::rename(data.path.c_str(), gone.c_str()) != 0) return std::nullopt;
  const std::uint64_t bytes = disk_bytes(gone);
  std::error_code error;
  fs::remove_all(gone, error);
  return bytes - std::min(bytes, disk_bytes(gone));
}

std::vector<CachedData> look_into_cache(const std::string& dir, bool reads_blocks) {
  std::error_code unknown;
  const bool is_cache = fs::exists(fs::path(dir) / "used", unknown);
  if (unknown) throw ConfigError("the cache " + printable(dir) + " cannot be looked into: " + unknown.message());
  if (!is_cache) throw ConfigError(printable(dir) + " is no cache of Forebay");
  std::uint64_t freed = 0;
  std::vector<CachedData> all;
  for (const DataFolder& folder : data_folders(dir)) {
    CachedData data{.data = folder.data, .used_s = folder.used_s};
    data.is_in_use = is_in_use(folder.about);
    for_each_entry(folder.path, [&](const fs::path& file, const struct stat& status) {
      ++data.objects;
      data.bytes += static_cast<std::uint64_t>(status.st_blocks) * kDiskBlock;
      if (reads_blocks) freed += check_blocks(file, data);
    });
    all.push_back(std::move(data));
  }
  if (freed > 0) CacheUse(dir).subtract(freed);
  std::ranges::sort(all, std::greater(), &CachedData::used_s);
  return all;
}

std::uint64_t clear_cache(const std::string& dir) {
  (void)look_into_cache(dir, false);
  const CacheUse use(dir);
  std::uint64_t bytes = 0;
  for (const DataFolder& data : data_folders(dir)) bytes += remove_unused(data).value_or(0);
  use.subtract(bytes);
  return bytes;
}

}  // namespace forebay::store

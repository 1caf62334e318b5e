// Locks, the count of bytes, and the folders of datasets.
//
// DIR/lock is held, shared, by all who use the cache. Who gets it alone is the first, and trusts DIR/used only if the
// last one before said that it is right; a process that was killed did not. DIR/used itself is locked for a moment by
// whoever changes it. A wait for a lock is bounded: its owner may be a process that was stopped.
//
// Everything is opened anew when it is used, so that a
// directory that was emptied meanwhile fills again.

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
constexpr std::size_t kLongestAbout = std::size_t{64} << 10U;

// Written as a whole by one call, which a process that is killed has made or not.
struct UsedBytes {
  std::array<char, 8> magic{'F', 'b', 'u', 's', 'e', 'd', '0', '1'};
  std::uint64_t bytes = 0;
  std::uint64_t is_in_order = 0;  // it was left by the last process that used it
};

std::optional<UsedBytes> read_used(const FileDescriptor& file) noexcept {
  UsedBytes used;
  const auto got = retry_interrupted([&] { return ::pread(file.get(), &used, sizeof used, 0); });
  if (got != sizeof used || used.magic != UsedBytes().magic) return std::nullopt;
  return used;
}

void write_used(const FileDescriptor& file, const UsedBytes& used) noexcept {
  (void)!::pwrite(file.get(), &used, sizeof used, 0);
}

// visit(path, status) for each entry of the data, and for what a killed process left unfinished beside them. What
// disappears meanwhile is passed over: others work in the same directory.
template <typename Visit>
void for_each_entry(const std::string& folder, Visit&& visit) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (at.depth() == 0 || ::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    visit(at->path(), status);
  }
}

// As the file system counts, which is what the bound is about: holes take nothing.
std::uint64_t disk_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for_each_entry(folder, [&](const fs::path&, const struct stat& status) {
    bytes += static_cast<std::uint64_t>(status.st_blocks) * kDiskBlock;
  });
  return bytes;
}

// Of a damaged block nothing is left: it is read again from the store.
void check_blocks(const fs::path& file, CachedData& data) {
  const auto entry = CacheEntry::open(AT_FDCWD, file.string());
  if (!entry) return;
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
      entry->forget(first + i);
    }
  }
}

}  // namespace

bool try_lock(const FileDescriptor& file, Lock lock) noexcept {
  const int how = (lock == Lock::sole ? LOCK_EX : LOCK_SH) | LOCK_NB;
  return retry_interrupted([&] { return ::flock(file.get(), how); }) == 0;
}

bool lock_within(const FileDescriptor& file, Lock lock, double limit_s) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limit_s);
  while (!try_lock(file, lock)) {
    if (errno != EWOULDBLOCK || Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Not through a link, which may lead to a file of somebody else, and not into a FIFO, which would wait.
FileDescriptor open_in(int folder, const std::string& name) noexcept {
  constexpr int kHow = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  return FileDescriptor(retry_interrupted([&] { return ::openat(folder, name.c_str(), kHow, 0600); }));
}

CacheUse::CacheUse(const std::string& dir) {
  constexpr double kCounting_s = 60;  // of a million entries on a slow disk
  const auto refuse = [](const char* what) { throw Error(what + (": " + std::generic_category().message(errno))); };
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) refuse("it cannot be made");
  folder_ = FileDescriptor(
      retry_interrupted([&] { return ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK); }));
  if (!folder_.is_open()) refuse("it cannot be opened");
  lock_ = open_in(folder(), "lock");
  if (!lock_.is_open()) refuse("nothing can be written there");
  if (try_lock(lock_, Lock::sole)) {
    const FileDescriptor file = open_in(folder(), "used");
    auto used = read_used(file);
    if (!used || used->is_in_order == 0) {
      used.emplace();
      for (const DataFolder& data : data_folders(dir)) used->bytes += disk_bytes(data.path);
    }
    used->is_in_order = 0;
    write_used(file, *used);
  }
  if (!lock_within(lock_, Lock::shared, kCounting_s)) refuse("its lock cannot be had");
}

// The last one says that the count is right.
void CacheUse::leave() noexcept {
  if (!lock_.is_open()) return;
  if (try_lock(lock_, Lock::sole)) {
    const FileDescriptor file = open_in(folder(), "used");
    if (auto used = read_used(file)) {
      used->is_in_order = 1;
      write_used(file, *used);
    }
  }
  lock_.reset();
}

std::uint64_t CacheUse::held() const noexcept {
  const auto used = read_used(open_in(folder(), "used"));
  return used ? used->bytes : 0;
}

// A count that was lost with the directory begins anew.
bool CacheUse::add(std::uint64_t more, std::uint64_t limit) const noexcept {
  constexpr double kPatience_s = 0.2;  // then this is not kept
  const FileDescriptor file = open_in(folder(), "used");
  if (!file.is_open() || !lock_within(file, Lock::sole, kPatience_s)) return false;
  UsedBytes used = read_used(file).value_or(UsedBytes());
  if (used.bytes + more > limit) return false;
  used.bytes += more;
  write_used(file, used);
  return true;
}

// It waits longer than add(): what is not subtracted is room that nobody has until the cache is counted anew.
void CacheUse::subtract(std::uint64_t less) const noexcept {
  constexpr double kPatience_s = 10;
  const FileDescriptor file = open_in(folder(), "used");
  if (!file.is_open() || !lock_within(file, Lock::sole, kPatience_s)) return;
  UsedBytes used = read_used(file).value_or(UsedBytes());
  used.bytes -= std::min(used.bytes, less);
  write_used(file, used);
}

std::string data_folder_name(const std::string& data) {
  return forebay::hex(XXH3_64bits(data.data(), data.size()), 16);
}

// Somebody may remove the folder between the steps; then it is made again.
FileDescriptor use_data_folder(int folder, const std::string& data) {
  const std::string name = data_folder_name(data);
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (::mkdirat(folder, name.c_str(), 0700) != 0 && errno != EEXIST) return {};
    FileDescriptor about = open_in(folder, name + "/about");
    if (!about.is_open() && errno == ENOENT) continue;
    if (!about.is_open() || !lock_within(about, Lock::shared, 1)) continue;
    struct stat is {};
    struct stat named {};
    if (::fstat(about.get(), &is) != 0 || ::fstatat(folder, (name + "/about").c_str(), &named, 0) != 0 ||
        is.st_ino != named.st_ino) {
      continue;
    }
    const std::string text = std::string(kAboutMark) + data + "\n";
    (void)!::pwrite(about.get(), text.data(), text.size(), 0);  // notes the time, too
    return about;
  }
  return {};
}

// The directory may be one that has other things, too: only what says that it is a cache's, under the name that follows
// from what it says, is ever removed.
std::vector<DataFolder> data_folders(const std::string& dir) {
  std::vector<DataFolder> found;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    DataFolder data{.path = at->path().string(), .data = {}, .used_s = 0, .about = {}};
    const std::string file = data.path + "/about";
    data.about = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
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

// Under the lock, so that a run that begins now makes a new folder, and does not write into one that goes.
std::optional<std::uint64_t> remove_unused(const DataFolder& data) {
  if (!try_lock(data.about, Lock::sole)) return std::nullopt;
  const std::uint64_t bytes = disk_bytes(data.path);
  std::error_code error;
  fs::remove_all(data.path, error);
  return bytes - std::min(bytes, disk_bytes(data.path));
}

std::vector<CachedData> look_into_cache(const std::string& dir, bool reads_blocks) {
  std::error_code unknown;
  if (!fs::exists(fs::path(dir) / "used", unknown)) throw ConfigError(printable(dir) + " is no cache of Forebay");
  std::vector<CachedData> all;
  for (const DataFolder& folder : data_folders(dir)) {
    CachedData data{.data = folder.data, .used_s = folder.used_s};
    data.is_in_use = !try_lock(folder.about, Lock::sole);
    if (!data.is_in_use) (void)::flock(folder.about.get(), LOCK_UN);
    for_each_entry(folder.path, [&](const fs::path& file, const struct stat& status) {
      ++data.objects;
      data.bytes += static_cast<std::uint64_t>(status.st_blocks) * kDiskBlock;
      if (reads_blocks) check_blocks(file, data);
    });
    all.push_back(std::move(data));
  }
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

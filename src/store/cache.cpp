// Reads through the cache, on the threads that request the bytes.
//
// A read of a file takes the blocks that it touches from the file's entry, verifies their
// checksums, reads missing ones from the store in as few requests as possible, and writes those to
// the entry if there is room. Nothing is evicted while it is in use: each sample comes once per
// epoch, so the number of hits is the number of samples kept, whichever they are, and keeping the
// first ones needs no writes afterwards. Entries are opened anew for each read: that costs a few
// microseconds and keeps no descriptor, and an emptied directory is noticed immediately.
//
// Every failure of the cache falls back to a read from the store. Errors of the store are passed
// on.

#include "cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <forebay/error.hpp>
#include <system_error>
#include <utility>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "objects.hpp"
#include "url.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::store {
namespace {

constexpr std::size_t kBlock = CacheEntry::kBlock;
// Up to how many blocks between two missing ones are read along with them: what a store delivers in
// the time of another request.
constexpr std::size_t kReadOver = (std::size_t{128} << 10U) / kBlock;
constexpr std::int64_t kSecond_ns = 1'000'000'000;
// Both chosen: a second, so that room left by another job is soon used while asking for it slows no
// read; a minute, because a failing disk is worth a line that often.
constexpr std::int64_t kFull_ns = kSecond_ns;          // until room is asked for again
constexpr std::int64_t kFailing_ns = 60 * kSecond_ns;  // until a disk that fails is written to again

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// On the disk, if all of it is kept.
std::uint64_t room_of(const KeptObject& object) {
  return CacheEntry::overhead(object) + CacheEntry::whole_blocks(object.bytes);
}

void say_damaged(const std::string& name) {
  StorePatience::tell_on_stderr("the cache had damaged bytes of " + printable(name) +
                                ", which were read from its store again");
}

}  // namespace

// A file read through its cache entry. A read first takes all blocks that the entry has, then those
// that it lacks, which include blocks found damaged. Bytes around the requested ones go to
// temporary memory; without them the first and the last block could be neither verified nor kept.
class NodeCache::File final : public RemoteFile {
 public:
  File(std::shared_ptr<const NodeCache> cache, OpenFile source, KeptObject object)
      : cache_(std::move(cache)), source_(std::move(source)), object_(std::move(object)) {}

  [[nodiscard]] const std::string& name() const noexcept override { return object_.name; }
  [[nodiscard]] std::uint64_t identity() const noexcept override { return object_.identity; }

  void read(std::size_t offset, std::span<const std::span<std::byte>> pieces) const override {
    std::size_t wanted = 0;
    for (const auto piece : pieces) wanted += piece.size();
    if (wanted == 0) return;
    if (offset > source_.size || wanted > source_.size - offset) {
      return read_source(offset, Spans(pieces.begin(), pieces.end()));
    }
    // Whole blocks, with the bytes around the requested ones.
    const std::uint64_t first = offset / kBlock;
    const std::size_t begin = static_cast<std::size_t>(first) * kBlock;
    const std::size_t end = std::min(static_cast<std::size_t>(CacheEntry::whole_blocks(offset + wanted)), source_.size);
    read_blocks(offset, wanted, first, end, pieces);
    traffic().room += begin == 0 && end == source_.size ? room_of(object_) : end - begin;
  }

 private:
  // The bytes from `offset` on, which are in the blocks from `first` to `end`.
  void read_blocks(std::size_t offset, std::size_t wanted, std::uint64_t first, std::size_t end,
                   std::span<const std::span<std::byte>> pieces) const {
    const auto entry = cache_->entry_of(object_);
    if (!entry) return read_source(offset, Spans(pieces.begin(), pieces.end()));
    const std::size_t begin = static_cast<std::size_t>(first) * kBlock;
    std::vector<std::byte> around(end - begin - wanted);
    Spans all{std::span(around).first(offset - begin)};
    all.insert(all.end(), pieces.begin(), pieces.end());
    all.push_back(std::span(around).subspan(offset - begin));
    const std::vector<bool> is_there = read_kept(*entry, first, all, (end - begin + kBlock - 1) / kBlock);
    traffic().from_cache += end - begin - read_missing(*entry, first, all, is_there);
  }

  // Reads what the entry has. Returns which blocks have been read.
  [[nodiscard]] std::vector<bool> read_kept(const CacheEntry& entry, std::uint64_t first, const Spans& all,
                                            std::size_t count) const {
    const std::vector<std::uint64_t> sums = entry.sums(first, count);
    std::vector<bool> is_there(count);
    std::vector<bool> is_good;
    for (std::size_t i = 0, to = 0; i < count; i = to) {
      for (to = i + 1; to < count && (sums[to] == 0) == (sums[i] == 0);) ++to;
      if (sums[i] == 0) continue;
      const auto some = std::span(sums).subspan(i, to - i);
      const int error = entry.read(first + i, cut(all, i * kBlock, to * kBlock), some, is_good);
      if (error != 0) cache_->fails_to_read(error);
      std::copy(is_good.begin(), is_good.end(), is_there.begin() + static_cast<std::ptrdiff_t>(i));
      if (error == 0 && std::find(is_good.begin(), is_good.end(), false) != is_good.end()) say_damaged(name());
    }
    return is_there;
  }

  // Reads the others from the store, and keeps them. Returns the number of bytes read. Blocks
  // already present are read again if that saves a request, which costs more on a distant store
  // than their bytes. If the store fails, what arrived before is kept, and the next attempt
  // requests the rest.
  [[nodiscard]] std::size_t read_missing(const CacheEntry& entry, std::uint64_t first, const Spans& all,
                                         const std::vector<bool>& is_there) const {
    const std::size_t count = is_there.size();
    std::size_t read = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_there[i]) continue;
      std::size_t to = i + 1;
      for (std::size_t j = to; j < std::min(count, to + kReadOver); ++j) {
        if (!is_there[j]) to = j + 1;
      }
      const Spans missing = cut(all, i * kBlock, to * kBlock);
      read_source((first + i) * kBlock, missing);
      for (const auto piece : missing) read += piece.size();
      for (std::size_t from = i; from < to;) {
        std::size_t next = from + 1;
        while (next < to && is_there[next] == is_there[from]) ++next;
        if (!is_there[from]) keep(entry, first + from, next - from, cut(all, from * kBlock, next * kBlock));
        from = next;
      }
      i = to;
    }
    return read;
  }

  // Another process may have stored them in the meantime.
  void keep(const CacheEntry& entry, std::uint64_t first, std::size_t count, const Spans& bytes) const {
    // A damaged block has room already.
    const auto sums = entry.sums(first, count);
    const auto more = static_cast<std::uint64_t>(std::ranges::count(sums, 0U)) * kBlock;
    if (more > 0 && !cache_->reserve(more)) return;
    if (const int error = entry.write(first, bytes); error != 0) {
      cache_->use_.subtract(more);
      cache_->fails("written", error);
    }
  }

  void read_source(std::size_t offset, const Spans& pieces) const {
    for (std::size_t first = 0; first < pieces.size(); first += kMostPieces) {
      const auto some = std::span(pieces).subspan(first, std::min(kMostPieces, pieces.size() - first));
      read_at(source_, offset, some);
      for (const auto piece : some) {
        offset += piece.size();
        if (!source_.remote) traffic().from_store += piece.size();  // an object has counted it
      }
    }
  }

  const std::shared_ptr<const NodeCache> cache_;
  const OpenFile source_;
  const KeptObject object_;
};

NodeCache::NodeCache(const CacheOptions& options, const std::string& data)
    : dir_(options.dir),
      data_(data.substr(0, data.find('\n'))),
      files_(options.files),
      use_(options.dir),
      about_(use_data_folder(use_.folder(), data_)),
      begun_ns_(now_ns()) {
  // For an automatic bound; what others occupy on the disk later shows only when it is full.
  struct stat status {};
  struct statvfs room {};
  if (!about_.is_open() || ::fstat(use_.folder(), &status) != 0 || ::fstatvfs(use_.folder(), &room) != 0) {
    throw Error("nothing can be written there: " + std::generic_category().message(errno));
  }
  device_ = status.st_dev;
  const std::uint64_t free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  limit_ = options.bytes > 0 ? static_cast<std::uint64_t>(options.bytes) : (free + use_.held()) / 10 * 9;
}

void NodeCache::leave() const noexcept {
  const std::lock_guard lock(mutex_);
  has_left_ = true;
  if (about_.is_own()) (void)::futimens(about_.get(), nullptr);
  about_.reset();
  use_.leave();
}

// The last answer is remembered, because on a slow mount it costs a request.
bool NodeCache::is_local(std::uint64_t device, const std::string& path) const {
  std::uint64_t seen = local_device_.load(std::memory_order_relaxed);
  if (seen / 2 != device) local_device_ = seen = device * 2 + (is_on_local_disk(path) ? 1 : 0);
  return seen % 2 == 1;
}

// A file's version is what the system reports: size, inode, and both times, since programs that
// copy files may set the modification time back. A file changed only a moment ago may change again
// within the resolution of its times, so it has no identity yet.
std::optional<KeptObject> NodeCache::object_of(const OpenFile& file, const std::string& path) const {
  if (file.remote != nullptr) {
    return KeptObject{.name = path, .version = {}, .identity = file.remote->identity(), .bytes = file.size};
  }
  struct stat status {};
  if (files_ == CacheFiles::remote || ::fstat(file.descriptor.get(), &status) != 0 || status.st_dev == device_ ||
      (files_ == CacheFiles::automatic && is_local(status.st_dev, path))) {
    return std::nullopt;
  }
  const auto ns = [](const timespec& time) { return time.tv_sec * kSecond_ns + time.tv_nsec; };
  const std::int64_t changed = std::max(ns(status.st_mtim), ns(status.st_ctim));
  const std::array version{static_cast<std::int64_t>(status.st_size), ns(status.st_mtim), ns(status.st_ctim),
                           static_cast<std::int64_t>(status.st_ino)};
  return KeptObject{.name = path,
                    .version = {},
                    .identity = changed > now_ns() - 2 * kSecond_ns ? 0 : XXH3_64bits(version.data(), sizeof version),
                    .bytes = static_cast<std::uint64_t>(status.st_size)};
}

// Makes no request and does not access the directory: the first read does.
OpenFile NodeCache::through(OpenFile file, const std::string& path) const {
  auto object = object_of(file, path);
  if (!object) return file;
  OpenFile cached;
  cached.size = file.size;
  cached.remote = std::make_shared<const File>(shared_from_this(), std::move(file), *std::move(object));
  return cached;
}

// There are four ways through it:
//  - the entry was compared in this run: it is read, and nothing is asked;
//  - the entry is older: the store is asked whether it has changed, which brings no bytes if it has not;
//  - there is none, or it has changed: the object is read whole, and kept for the next time;
//  - the entry turns out to be damaged: it is removed, and the object is read whole.
// What its store calls another version is read whole, and so is what the cache cannot give. The time that an entry was
// compared is that before the request: later, the object may have changed.
void NodeCache::read_object(const std::string& url,
                            const std::function<std::span<std::byte>(std::size_t)>& reserve) const {
  std::optional<std::span<std::byte>> place;
  const auto reserve_once = [&](std::size_t bytes) {
    if (!place) place = reserve(bytes);
    if (place->size() == bytes) return *place;
    throw SampleError("it changed while it was read", SampleError::Kind::transient);
  };
  const std::int64_t asked = now_ns();
  CacheEntry::Missing missing;
  auto entry = may_read() ? CacheEntry::open(use_.folder(), file_of(url), &missing) : std::nullopt;
  if (entry && (entry->object().name != url || entry->object().version.empty())) entry.reset();
  const bool is_checked = entry && entry->checked_ns() >= begun_ns_ && entry->checked_ns() <= asked;
  std::optional<std::string> version;  // none: that of the entry
  if (!is_checked) version = store::read_object(url, reserve_once, entry ? entry->object().version : "");
  if (!version) {
    if (!is_checked) entry->set_checked(asked);
    const auto bytes = reserve_once(static_cast<std::size_t>(entry->object().bytes));
    const auto sums = entry->sums(0, static_cast<std::size_t>(entry->blocks()));
    std::vector<bool> is_good;
    const int error = entry->read(0, {bytes}, sums, is_good);
    if (error == 0 && std::find(is_good.begin(), is_good.end(), false) == is_good.end()) {
      traffic().from_cache += bytes.size();
      traffic().room += room_of(entry->object());
      return;
    }
    if (error == 0) say_damaged(url);
    if (error != 0) fails_to_read(error);
    version = store::read_object(url, reserve_once);
  }
  // All of it was read; that it cannot be kept is nobody's error.
  KeptObject object{.name = url, .version = *std::move(version), .identity = 0, .bytes = place->size()};
  traffic().room += room_of(object);
  if (object.version.empty() || !missing.may_be_made || !may_write()) return;
  remove_entry(file_of(url), missing.other);
  object.identity = XXH3_64bits(object.version.data(), object.version.size());
  (void)publish(object, CacheEntry::whole_blocks(place->size()), [&](const CacheEntry& made) {
    if (const int error = made.write(0, {*place}); error != 0) throw std::system_error(error, std::generic_category());
    made.set_checked(asked);
  });
}

// Two names with the same hash would replace each other's entries: the entry contains its name, so
// only speed is lost.
std::string NodeCache::file_of(const std::string& name) const {
  const std::string sum = forebay::hex(XXH3_64bits(name.data(), name.size()), 16);
  return data_folder_name(data_) + "/" + sum.substr(0, 2) + "/" + sum.substr(2);
}

// If this index is older than the data and another run's is newer, the two replace each other's
// entries, which is slow, until the older one finds that its data are gone.
std::optional<CacheEntry> NodeCache::entry_of(const KeptObject& object) const {
  if (object.identity == 0 || !may_read()) return std::nullopt;
  const std::string file = file_of(object.name);
  // For a large object: at the start of a run all readers request it at once, and all but one would
  // write in vain.
  std::unique_lock making(making_, std::defer_lock);
  for (int attempt = 0; attempt < 3; ++attempt) {
    CacheEntry::Missing missing;
    if (auto entry = CacheEntry::open(use_.folder(), file, &missing)) {
      const KeptObject& found = entry->object();
      if (found.name == object.name && found.identity == object.identity && found.bytes == object.bytes) return entry;
    }
    if (!may_write() || !missing.may_be_made) return std::nullopt;
    if (!making.owns_lock() && CacheEntry::overhead(object) > CacheEntry::kLargeHead) {
      making.lock();  // by then another thread may have made it
      continue;
    }
    remove_entry(file, missing.other);
    if (auto entry = publish(object, 0, [](const CacheEntry&) {})) return entry;
  }
  return std::nullopt;
}

// The file is named last, so that whatever is found under the name is complete. If the name exists,
// another process was quicker.
template <typename Fill>
std::optional<CacheEntry> NodeCache::publish(const KeptObject& object, std::uint64_t bytes, Fill&& fill) const {
  const std::uint64_t room = CacheEntry::overhead(object) + bytes;
  if (CacheEntry::overhead(object) == 0 || !reserve(room)) return std::nullopt;
  const std::string file = file_of(object.name);
  const std::string folder = file.substr(0, file.rfind('/'));
  const std::string name = file.substr(folder.size() + 1);
  const std::string made = "new-" + std::to_string(::gettid()) + "-" + std::to_string(now_ns());
  FileDescriptor place;
  int error = 0;
  try {
    if (::mkdirat(use_.folder(), folder.c_str(), 0700) != 0 && errno == ENOENT) {  // somebody removed the data's folder
      const std::lock_guard lock(mutex_);
      about_ = use_data_folder(use_.folder(), data_);
      (void)::mkdirat(use_.folder(), folder.c_str(), 0700);
    }
    place = open_folder(use_.folder(), folder);
    if (!place.is_open()) throw std::system_error(errno, std::generic_category());
    CacheEntry entry = CacheEntry::make(place.get(), made, object);
    fill(entry);
    if (::linkat(place.get(), made.c_str(), place.get(), name.c_str(), 0) != 0) error = errno;
    (void)::unlinkat(place.get(), made.c_str(), 0);
    if (error == 0) return entry;
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  (void)::unlinkat(place.get(), made.c_str(), 0);
  use_.subtract(room);
  if (error != EEXIST) fails("written", error);
  return std::nullopt;
}

// Processes that have it open go on reading and writing a file without a name.
void NodeCache::remove_entry(const std::string& file, FileIdentity seen) const noexcept {
  struct stat status {};
  if (::fstatat(use_.folder(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(status.st_mode) && FileIdentity{status.st_dev, status.st_ino} != seen) return;
  if (::unlinkat(use_.folder(), file.c_str(), 0) == 0)
    use_.subtract(static_cast<std::uint64_t>(status.st_blocks) * 512);
}

bool NodeCache::may_read() const noexcept { return now_ns() >= reads_again_ns_.load(std::memory_order_relaxed); }
bool NodeCache::may_write() const noexcept { return now_ns() >= writes_again_ns_.load(std::memory_order_relaxed); }

// One thread at a time removes data, which may take seconds; the others do not store what they read
// in the meantime. Nothing is removed unless that makes enough room. If there is none, nobody asks
// again for a second, or for twenty times as long as it took to find out.
bool NodeCache::reserve(std::uint64_t bytes) const {
  if (!may_write()) return false;
  const auto add = [&] {
    const std::lock_guard lock(mutex_);
    return use_.add(bytes, limit_);
  };
  Room room = add();
  if (room == Room::had) return true;
  if (is_removing_.exchange(true)) return false;  // by then there may be room
  const std::int64_t began = now_ns();
  if (room == Room::full && bytes <= limit_) {
    auto all = data_folders(dir_);
    std::ranges::sort(all, {}, &DataFolder::used_s);
    std::uint64_t unused = 0;
    for (const DataFolder& data : all) unused += unused_bytes(data);
    if (use_.held() > unused + limit_ - bytes) all.clear();
    for (auto at = all.begin(); at != all.end() && room == Room::full; ++at) {
      const auto freed = remove_unused(*at);
      if (!freed) continue;
      use_.subtract(*freed);
      room = add();
    }
  }
  if (room != Room::had) writes_again_ns_ = now_ns() + std::max(kFull_ns, 20 * (now_ns() - began));
  is_removing_ = false;
  return room == Room::had;
}

// Logs at most one line a minute, from whichever thread meets the failure.
void NodeCache::fails(const char* what, int error) const {
  writes_again_ns_ = now_ns() + kFailing_ns;
  StorePatience::tell_on_stderr("the cache " + printable(dir_) + " cannot be " + what + ": " +
                                std::generic_category().message(error) +
                                "; what it does not have is read from the store");
}

// A disk that is about to die may take seconds to refuse each read.
void NodeCache::fails_to_read(int error) const {
  reads_again_ns_ = now_ns() + kFailing_ns;
  fails("read", error);
}

}  // namespace forebay::store

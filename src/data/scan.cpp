// Lists a tree of folders with several threads, for building an index; and single folders, for
// comparing an index with its data.
//
// The walk goes level by level: all folders of a level are listed in parallel, and the folders in
// them are the next level. Links to folders wait until no plain folder is left and are then
// followed in the order of their names, because the limits on links depend on which come first, and
// the result must not depend on threads. Results are merged under one mutex, per task of up to 64
// folders, and sorted at the end.
//
// On a network file system the system calls cost more than everything else. So the type of an entry
// comes from d_type, nothing is inspected that the listing or the name already tells, and a
// folder's times are read from the descriptor that is listed. A store that fails (end_scan) or a
// folder that may not be listed ends the build, because an index that is kept for years must not
// lack what could not be listed.

#include "scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include "base/file_io.hpp"
#include "base/retry.hpp"
#include "parallel.hpp"
#include "store/url.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::data {
namespace {

// Chosen: deeper trees exist only by accident, and each level costs a shared Trail and a longer
// path.
constexpr unsigned kDeepest = 64;
// The most links to one folder that are followed. Otherwise links to folders of links could give a
// file more names than there are bytes on the disk, because their number doubles at each level.
constexpr unsigned kMostLinks = 64;

// A folder and the folders through which it was reached, to detect a link that leads back.
struct Trail {
  dev_t device = 0;
  ino_t inode = 0;
  unsigned depth = 0;
  std::shared_ptr<const Trail> parent;

  // Compares device and inode, because one folder may have many paths. A linear search through at
  // most kDeepest folders.
  [[nodiscard]] bool passes(dev_t folder_device, ino_t folder_inode) const {
    for (const Trail* at = this; at != nullptr; at = at->parent.get()) {
      if (at->device == folder_device && at->inode == folder_inode) return true;
    }
    return false;
  }
};

struct Folder {
  std::string path;
  std::shared_ptr<const Trail> parents;  // null for the root
};

// A link to a folder.
struct FolderLink {
  Folder folder;
  dev_t device = 0;  // of the folder that it leads to
  ino_t inode = 0;
};

// The kind of an entry, from its name and the listing.
struct Entry {
  mode_t type = 0;  // the type bits of st_mode; for a link, those of its target, or 0 if it is broken
  bool is_link = false;
  dev_t device = 0;  // of a folder that a link leads to
  ino_t inode = 0;
};

// Inspects an entry. False if it does not exist or this process may not see it; it is then reported
// as a broken link or left out. Throws a transient SampleError if the store fails, because an entry
// must not be left out for that reason.
bool is_there(int folder, const char* name, int flags, struct stat& status) {
  if (::fstatat(folder, name, &status, flags) == 0) return true;
  const SampleError failure = system_failure(std::string("cannot inspect ") + name, errno);
  if (failure.is_transient()) throw SampleError(failure);
  return false;
}

// A link named like an image or an annotation is taken for a file and not followed, which would
// cost a system call for each sample of a dataset made of links.
Entry look_at(const dirent& entry, int folder) {
  struct stat status {};
  Entry found;
  found.is_link = entry.d_type == DT_LNK;
  if (found.is_link && (is_image_name(entry.d_name) || is_annotation_name(entry.d_name))) {
    found.type = S_IFREG;
  } else if (entry.d_type != DT_UNKNOWN && !found.is_link) {
    found.type = DTTOIF(entry.d_type);
  } else {
    if (entry.d_type == DT_UNKNOWN) {
      found.is_link = is_there(folder, entry.d_name, AT_SYMLINK_NOFOLLOW, status) && S_ISLNK(status.st_mode);
    }
    if (is_there(folder, entry.d_name, 0, status)) {
      found.type = status.st_mode & S_IFMT;
      found.device = status.st_dev;
      found.inode = status.st_ino;
    }
  }
  return found;
}

// Whether a link that leads nowhere may have led to a folder: its name has no extension. What
// git-annex has not fetched is always a file.
bool may_miss_folder(const Entry& found, int folder, const std::string& name) {
  if (!found.is_link || found.type != 0 || is_image_name(name) || is_annotation_name(name)) return false;
  constexpr std::size_t kLongestEnding = 5;  // with its dot; "001.Albatross" is a folder
  const auto dot = name.rfind('.');
  if (dot != std::string::npos && name.size() - dot <= kLongestEnding) return false;
  std::array<char, 4096> target{};
  const auto size = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  return size < 0 ||
         std::string_view(target.data(), static_cast<std::size_t>(size)).find(".git/annex/") == std::string_view::npos;
}

// Reports unusable entries only if they are named like images: nobody misses a broken link called
// "notes".
void add_file(Scan& scan, std::string path, mode_t type) {
  if (is_image_name(path)) {
    auto special = type == 0 ? "is a broken link" : describe_special(type);
    if (special.empty()) {
      scan.images.add(path);
    } else {
      scan.unusable.push_back({.path = std::move(path), .reason = std::move(special), .bad = true});
    }
  } else if (is_annotation_name(path) && S_ISREG(type)) {
    scan.annotations.add(path);
  } else {
    scan.others.add(path);
  }
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// A lack of descriptors (NoDescriptor) is distinguished, because it concerns only this process and
// passes once other files are closed.
[[noreturn]] void cannot_list() {
  const int error = errno;
  const SampleError failure = system_failure("cannot list the folder", error);
  if (error == EMFILE || error == ENFILE) throw NoDescriptor(failure);
  throw SampleError(failure);
}

// Throws SampleError if the folder cannot be listed, like the functions below.
Directory open_directory(const std::string& path) {
  if (Directory directory{::opendir(path.empty() ? "." : path.c_str())}) return directory;
  cannot_list();
}

// Sums are kept for every kind of name: which of them count depends on the format, which is known
// only after the scan (DataState::Names).
void sum_name(std::string_view name, mode_t type, ListedFolder& listed) noexcept {
  const bool is_folder = S_ISDIR(type);
  const bool is_annotation = is_folder ? is_annotations_folder(name) : is_annotation_name(name);
  if (is_folder || is_annotation || is_image_name(name)) listed.data.add(name, is_folder);
  if (is_annotation) listed.annotations.add(name, is_folder);
  if (is_folder) return;
  if (name.find('.') == std::string_view::npos) listed.bare.add(name, is_folder);
  if (name.ends_with(".txt")) listed.texts.add(name, is_folder);
  if (name.ends_with(".json")) listed.json.add(name, is_folder);
  if (is_video_name(name)) listed.videos.add(name, is_folder);
}

// Calls on_folder(path, entry) for each folder in the directory, and adds its files to the scan.
// The folder's times are read before the first name, so that a change during the listing shows
// later as different times. errno is cleared before each readdir(), which returns null both at the
// end and after an error.
template <typename OnFolder>
void list(DIR& directory, const std::string& folder, Scan& scan, OnFolder&& on_folder) {
  struct stat status {};
  if (::fstat(::dirfd(&directory), &status) != 0) cannot_list();
  ListedFolder& listed = scan.listed.emplace_back();
  listed.path = folder;
  listed.times = times_of(status);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(&directory);
    if (entry == nullptr && errno != 0) cannot_list();
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    std::string path = join_path(folder, name);
    const Entry found = look_at(*entry, ::dirfd(&directory));
    if (S_ISDIR(found.type) && is_stray(name)) {
      scan.unusable.push_back(stray_folder(path));
      continue;
    }
    sum_name(name, found.type, listed);
    if (may_miss_folder(found, ::dirfd(&directory), entry->d_name)) {
      scan.unusable.push_back({.path = std::move(path), .reason = std::string(kLinkToNothing), .bad = true});
    } else if (S_ISDIR(found.type)) {
      on_folder(path, found);
      scan.folders.add(path);
    } else {
      add_file(scan, std::move(path), found.type);
    }
  }
}

void append(Scan&& found, Scan& scan) {
  scan.images.append(std::move(found.images));
  scan.annotations.append(std::move(found.annotations));
  scan.others.append(std::move(found.others));
  scan.folders.append(std::move(found.folders));
  std::ranges::move(found.unusable, std::back_inserter(scan.unusable));
  std::ranges::move(found.listed, std::back_inserter(scan.listed));
}

class Walk {
 public:
  Walk(const std::string& root, unsigned threads, const IndexProgress& progress)
      : root_(root), threads_(std::max(threads, 1U)), progress_(progress) {}

  // Lists one level per iteration, and follows links only when no plain folder is left.
  Scan run() {
    for (std::vector<Folder> folders{Folder{}}; !folders.empty();) {
      folders = list_all(folders);
      if (folders.empty()) folders = behind_links();
    }
    return std::move(scan_);
  }

 private:
  // The result of listing a few folders.
  struct Found {
    Scan scan;
    std::vector<Folder> folders;
    std::vector<FolderLink> links;
  };

  // Lists the folders and returns the folders in them. If there are many, a task lists several,
  // because each task takes the mutex once and most folders have few files. There are still at
  // least eight tasks per thread, so that no thread waits long for the last one.
  std::vector<Folder> list_all(const std::vector<Folder>& folders) {
    constexpr std::size_t kMostAtOnce = 64;
    const std::size_t at_once = std::clamp<std::size_t>(folders.size() / (std::size_t{8} * threads_), 1, kMostAtOnce);
    std::vector<Folder> next;
    const auto list = [&](std::size_t begin, std::size_t end) {
      Found found;
      for (const Folder& folder : std::span(folders).subspan(begin, end - begin)) visit_patiently(folder, found);
      const std::lock_guard lock(mutex_);
      append(std::move(found.scan), scan_);
      std::ranges::move(found.folders, std::back_inserter(next));
      std::ranges::move(found.links, std::back_inserter(links_));
    };
    const auto report = [this](std::uint64_t, std::uint64_t) {
      if (progress_) progress_(files_, files_);
    };
    if (folders.size() > 1) {
      run_in_ranges({folders.size(), threads_, report, at_once}, list);
    } else {
      list(0, folders.size());  // a single folder, such as the root, needs no thread
      report(0, 0);
    }
    return next;
  }

  // The folders to which the links found so far lead, in the order of the links' names, so that the
  // result does not depend on threads.
  std::vector<Folder> behind_links() {
    std::vector<FolderLink> links = std::exchange(links_, {});
    std::ranges::sort(links, {}, [](const FolderLink& link) -> const std::string& { return link.folder.path; });
    std::vector<Folder> folders;
    for (auto& [folder, device, inode] : links) {
      if (folder.parents->passes(device, inode)) {
        scan_.unusable.push_back({folder.path, kLinksBack, false});
      } else if (++followed_[{device, inode}] > kMostLinks) {
        scan_.unusable.push_back(
            {folder.path,
             "links to a folder that " + std::to_string(kMostLinks) + " other links lead to; no more are followed",
             true});
      } else {
        folders.push_back(std::move(folder));
      }
    }
    return folders;
  }

  // A folder that this process may not list ends the walk: without the samples of a class, the
  // classes after it would have other numbers, and a saved index would not differ from its data once
  // the folder can be listed. One that was removed meanwhile is reported, and the walk goes on.
  void visit_patiently(const Folder& folder, Found& found) {
    try {
      Found mine = read_patiently(join_path(root_, folder.path), [&] { return visit(folder); });
      files_ += mine.scan.images.size() + mine.scan.annotations.size();
      append(std::move(mine.scan), found.scan);
      std::ranges::move(mine.folders, std::back_inserter(found.folders));
      std::ranges::move(mine.links, std::back_inserter(found.links));
    } catch (const SampleError& error) {
      if (folder.path.empty()) throw ConfigError("dataset.path = \"" + root_ + "\": " + error.what());
      const std::string path = join_path(root_, folder.path);
      if (error.is_transient()) end_scan(path, error);
      if (struct stat status{}; ::lstat(path.c_str(), &status) == 0 || errno != ENOENT) {
        throw ConfigError("dataset.path: " + path + ": " + error.what() +
                          "; its samples would be missing, and the numbers of classes may change: make it readable for "
                          "this user, or move it out of the dataset");
      }
      found.scan.unusable.push_back({folder.path, error.what(), true});
    }
  }

  // Builds a separate result, because read_patiently() repeats the visit after a failure of the
  // store, and a partial listing must not be counted twice.
  [[nodiscard]] Found visit(const Folder& folder) const {
    Found found;
    Scan& scan = found.scan;
    const Directory directory = open_directory(folder.path.empty() ? root_ : join_path(root_, folder.path));
    struct stat status {};
    if (::fstat(::dirfd(directory.get()), &status) != 0) cannot_list();
    if (folder.parents && folder.parents->passes(status.st_dev, status.st_ino)) {
      scan.unusable.push_back({folder.path, kLinksBack, false});
      return found;
    }
    const unsigned depth = folder.parents ? folder.parents->depth + 1 : 0;
    if (depth > kDeepest) {
      scan.unusable.push_back({folder.path, "nested deeper than " + std::to_string(kDeepest) + " folders", true});
      return found;
    }
    const auto trail = std::make_shared<const Trail>(Trail{status.st_dev, status.st_ino, depth, folder.parents});
    list(*directory, folder.path, scan, [&](const std::string& path, const Entry& entry) {
      if (entry.is_link) {
        found.links.push_back({{path, trail}, entry.device, entry.inode});
      } else {
        found.folders.push_back({path, trail});
      }
    });
    return found;
  }

  static constexpr const char* kLinksBack = "links back to a folder that it is in";

  const std::string& root_;
  const unsigned threads_;
  const IndexProgress& progress_;
  std::atomic<std::uint64_t> files_{0};
  std::map<std::pair<dev_t, ino_t>, unsigned> followed_;  // number of followed links, by folder
  std::mutex mutex_;                                      // guards the members below while threads list folders
  Scan scan_;
  std::vector<FolderLink> links_;  // not followed yet
};

void sort_files(Scan& scan) {
  for (auto* list : {&scan.images, &scan.annotations, &scan.others, &scan.folders}) {
    list->sort();
  }
}

void sort_unusable(Scan& scan) {
  std::sort(scan.unusable.begin(), scan.unusable.end(),
            [](const Skipped& a, const Skipped& b) { return a.path < b.path; });
}

// A folder may be called "x.jpg"; if there is no image in it, it is reported as a mistake. The
// images in it are adjacent in the sorted list and begin at the first path that is not less than
// the prefix. REQUIRES: sort_files() has been called.
void report_folders_named_like_images(Scan& scan) {
  for (const auto& folder : scan.folders) {
    if (!is_image_name(folder)) continue;
    const std::string prefix = std::string(folder) + "/";
    const auto inside = std::lower_bound(scan.images.begin(), scan.images.end(), prefix);
    if (inside != scan.images.end() && inside->starts_with(prefix)) continue;
    scan.unusable.push_back({.path = std::string(folder), .reason = "is a directory", .bad = true});
  }
}

}  // namespace

void NameSum::add(std::string_view name, bool is_folder) noexcept {
  ++count;
  sum += XXH3_64bits_withSeed(name.data(), name.size(), is_folder ? 1 : 0);
}

// A second change within one tick of the file system's clock leaves the same time, so times of the
// last 2 seconds count as unknown (FAT, the coarsest, has ticks of 2 seconds). ctime is included
// because any program can set mtime, as archivers and rsync do. 0 and kAbsent have special
// meanings, so the sum is never one of them.
std::uint64_t times_of(const struct stat& status) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::array<std::int64_t, 3> times{status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec,
                                          status.st_ctim.tv_sec * kSecond + status.st_ctim.tv_nsec,
                                          S_ISDIR(status.st_mode) ? 0 : status.st_size};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const bool is_old = std::max(times[0], times[1]) < std::chrono::nanoseconds(now).count() - 2 * kSecond;
  const std::uint64_t sum = XXH3_64bits(times.data(), sizeof times);
  return is_old ? std::max<std::uint64_t>(sum, ListedFolder::kAbsent + 1) : 0;
}

void end_scan(const std::string& path, const SampleError& error) {
  throw ConfigError("dataset.path: " + path + ": " + error.what() +
                    "; an index of what can be read now would lack the rest: build it again when the store is well");
}

Scan scan_tree(const std::string& root, unsigned threads, const IndexProgress& progress) {
  Scan scan = store::is_url(root) ? scan_objects(root, threads, progress) : Walk(root, threads, progress).run();
  sort_files(scan);
  report_folders_named_like_images(scan);
  sort_unusable(scan);
  return scan;
}

// A folder that does not exist is recorded as kAbsent: if it exists later, the data have changed.
Scan scan_folder(const std::string& root, const std::string& folder) {
  const std::string path = join_path(root, folder);
  Scan scan;
  try {
    scan = read_patiently(path, [&] {
      if (store::is_url(root)) return scan_objects(root, folder, false);
      Scan anew;
      list(*open_directory(path), folder, anew, [](const std::string&, const Entry&) {});
      return anew;
    });
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(path, error);
    scan = {};
    scan.listed.push_back({.path = folder, .times = ListedFolder::kAbsent});
  }
  sort_files(scan);
  sort_unusable(scan);
  return scan;
}

}  // namespace forebay::data

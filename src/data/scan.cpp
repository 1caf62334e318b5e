#include "scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file_io.hpp"
#include "parallel.hpp"

namespace forebay {
namespace {

// Deeper trees exist by accident only.
constexpr unsigned kDeepest = 64;
// Links to one folder that are followed. Links to folders of links would otherwise give a file more names than there
// are bytes on the disk: twice as many at each level.
constexpr unsigned kMostLinks = 64;

// A folder and the folders that it was reached through, to notice a link that leads back.
struct Trail {
  dev_t device = 0;
  ino_t inode = 0;
  unsigned depth = 0;
  std::shared_ptr<const Trail> parent;

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
  dev_t device = 0;  // of what it leads to
  ino_t inode = 0;
};

bool ends_with_ignoring_case(std::string_view text, std::string_view lower_case) noexcept {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.rbegin(), lower_case.rend(), text.rbegin(), [](char expected, char given) {
           return expected == static_cast<char>(std::tolower(static_cast<unsigned char>(given)));
         });
}

// What a listing says of a name.
struct Entry {
  mode_t type = 0;  // the type bits of st_mode, of what a link leads to; 0 for a link to nothing
  bool is_link = false;
  dev_t device = 0;  // of a folder behind a link
  ino_t inode = 0;
};

// A link named like an image or an annotation is not looked up, that would cost a system call for each sample of a set
// made of links.
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
      found.is_link = ::fstatat(folder, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
    }
    if (::fstatat(folder, entry.d_name, &status, 0) == 0) {
      found.type = status.st_mode & S_IFMT;
      found.device = status.st_dev;
      found.inode = status.st_ino;
    }
  }
  return found;
}

void add_file(Scan& scan, std::string path, mode_t type) {
  if (is_image_name(path)) {
    auto special = type == 0 ? "is a link to nothing" : describe_special(type);
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

// Null with errno set when it cannot be listed.
Directory open_directory(const std::string& path) { return Directory(::opendir(path.empty() ? "." : path.c_str())); }

// Calls on_folder(path, entry) for each folder in it and adds the files to the scan. False with errno set on a failure.
template <typename OnFolder>
bool list(DIR& directory, const std::string& folder, Scan& scan, OnFolder&& on_folder) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(&directory);
    if (entry == nullptr) return errno == 0;
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    std::string path = join_path(folder, name);
    const Entry found = look_at(*entry, ::dirfd(&directory));
    if (S_ISDIR(found.type)) {
      on_folder(path, found);
      scan.folders.add(path);
    } else {
      add_file(scan, std::move(path), found.type);
    }
  }
}

// Folders yet to be listed, shared by the walking threads. The walk ends when none is left and none is being listed.
class Frontier {
 public:
  void add(std::vector<Folder> folders) {
    {
      const std::lock_guard lock(mutex_);
      std::move(folders.begin(), folders.end(), std::back_inserter(waiting_));
    }
    changed_.notify_all();
  }
  // Waits for a folder; nothing at the end of the walk. REQUIRES: done() follows each folder.
  std::optional<Folder> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty() || busy_ == 0; });
    if (stopped_ || waiting_.empty()) return std::nullopt;
    Folder folder = std::move(waiting_.back());
    waiting_.pop_back();
    ++busy_;
    return folder;
  }
  void done() {
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Folder> waiting_;
  std::size_t busy_ = 0;
  bool stopped_ = false;
};

class Walk {
 public:
  explicit Walk(std::string root) : root_(std::move(root)) { frontier_.add({Folder{}}); }

  void work() {
    Scan found;
    while (auto folder = frontier_.take()) {
      frontier_.add(visit(*folder, found));
      frontier_.done();
    }
    merge(std::move(found));
  }
  // Lets the walk go on behind the links to folders that it came to, in the order of their names, so that the result
  // does not depend on threads. False when there are none. REQUIRES: every work() has returned.
  [[nodiscard]] bool follow_links() {
    std::vector<FolderLink> links = std::exchange(links_, {});
    std::sort(links.begin(), links.end(),
              [](const FolderLink& a, const FolderLink& b) { return a.folder.path < b.folder.path; });
    std::vector<Folder> folders;
    for (auto& [folder, device, inode] : links) {
      if (folder.parents->passes(device, inode)) {
        scan_.unusable.push_back({folder.path, "links back to a folder that it is in", false});
      } else if (++followed_[{device, inode}] > kMostLinks) {
        scan_.unusable.push_back(
            {folder.path,
             "links to a folder that " + std::to_string(kMostLinks) + " other links lead to; no more are followed",
             true});
      } else {
        folders.push_back(std::move(folder));
      }
    }
    const bool any = !folders.empty();
    frontier_.add(std::move(folders));
    return any;
  }
  void stop() { frontier_.stop(); }
  [[nodiscard]] std::uint64_t files() const noexcept { return files_; }
  // REQUIRES: every work() has returned.
  [[nodiscard]] Scan take() { return std::move(scan_); }

 private:
  std::vector<Folder> visit(const Folder& folder, Scan& found) {
    const Directory directory = open_directory(folder.path.empty() ? root_ : join_path(root_, folder.path));
    struct stat status {};
    if (!directory || ::fstat(::dirfd(directory.get()), &status) != 0) return cannot_list(folder, found, errno);
    if (folder.parents && folder.parents->passes(status.st_dev, status.st_ino)) {
      found.unusable.push_back({folder.path, "links back to a folder that it is in", false});
      return {};
    }
    const unsigned depth = folder.parents ? folder.parents->depth + 1 : 0;
    if (depth > kDeepest) {
      found.unusable.push_back({folder.path, "nested deeper than " + std::to_string(kDeepest) + " folders", true});
      return {};
    }
    const auto trail = std::make_shared<const Trail>(Trail{status.st_dev, status.st_ino, depth, folder.parents});
    std::vector<Folder> folders;
    const std::size_t before = found.images.size() + found.annotations.size();
    std::vector<FolderLink> links;
    const bool complete = list(*directory, folder.path, found, [&](const std::string& path, const Entry& entry) {
      if (entry.is_link) {
        links.push_back({{path, trail}, entry.device, entry.inode});
      } else {
        folders.push_back({path, trail});
      }
    });
    if (!links.empty()) {
      const std::lock_guard lock(mutex_);
      std::move(links.begin(), links.end(), std::back_inserter(links_));
    }
    if (!complete) cannot_list(folder, found, errno);
    files_ += found.images.size() + found.annotations.size() - before;
    return folders;
  }

  std::vector<Folder> cannot_list(const Folder& folder, Scan& found, int error) const {
    const std::string reason = std::generic_category().message(error);
    if (folder.path.empty()) throw ConfigError("dataset.path = \"" + root_ + "\": cannot list the folder: " + reason);
    found.unusable.push_back({folder.path, "cannot list the folder: " + reason, true});
    return {};
  }

  void merge(Scan found) {
    const std::lock_guard lock(mutex_);
    scan_.images.append(std::move(found.images));
    scan_.annotations.append(std::move(found.annotations));
    scan_.others.append(std::move(found.others));
    scan_.folders.append(std::move(found.folders));
    std::move(found.unusable.begin(), found.unusable.end(), std::back_inserter(scan_.unusable));
  }

  std::string root_;
  Frontier frontier_;
  std::atomic<std::uint64_t> files_{0};
  std::map<std::pair<dev_t, ino_t>, unsigned> followed_;  // links to each folder
  std::mutex mutex_;
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

// A folder may well be called "x.jpg"; without an image in it, it is taken for a mistake. REQUIRES: sort_files.
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

bool is_image_name(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 3> kEndings{".jpg", ".jpeg", ".jpe"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return ends_with_ignoring_case(name, ending); });
}

bool is_annotation_name(std::string_view name) noexcept { return ends_with_ignoring_case(name, ".xml"); }

bool is_annotations_folder(std::string_view name) noexcept {
  constexpr std::string_view kName = "annotations";
  return name.size() == kName.size() && ends_with_ignoring_case(name, kName);
}

bool may_hold_annotations(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> kNames{"annotations", "annotation", "annots", "annot",
                                                   "labels",      "label",      "xml",    "xmls"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
    return name.size() == known.size() && ends_with_ignoring_case(name, known);
  });
}

std::string_view first_component(std::string_view path) noexcept { return path.substr(0, path.find('/')); }

std::string_view base_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

std::string_view parent_folder(std::string_view path) noexcept {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::string_view stem_of(std::string_view path) noexcept {
  const auto name = base_name(path);
  return name.substr(0, name.rfind('.'));
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && !path.ends_with('/')) path += '/';
  return path.append(name);
}

Scan scan_tree(const std::string& root, unsigned threads, const IndexProgress& progress) {
  Walk walk(root);
  do {
    run_workers(
        threads, [&] { walk.work(); }, [&] { walk.stop(); },
        [&] {
          if (progress) progress(walk.files(), walk.files());
        });
  } while (walk.follow_links());
  Scan scan = walk.take();
  sort_files(scan);
  report_folders_named_like_images(scan);
  sort_unusable(scan);
  return scan;
}

Scan scan_folder(const std::string& root, const std::string& folder) {
  Scan scan;
  if (const Directory directory = open_directory(join_path(root, folder))) {
    list(*directory, folder, scan, [](const std::string&, const Entry&) {});
  }
  sort_files(scan);
  sort_unusable(scan);
  return scan;
}

}  // namespace forebay

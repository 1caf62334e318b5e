#include "scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
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

namespace forebay {
namespace {

// Deeper trees exist only by accident.
constexpr unsigned kDeepest = 64;
// Links to one folder that are followed. Otherwise links to folders of links could give a file more names than there
// are bytes on the disk: twice as many at each level.
constexpr unsigned kMostLinks = 64;

// A folder and the folders through which it was reached, to detect a link that leads back.
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

// The endings of kOtherImageEndings one by one.
consteval auto other_image_endings() {
  constexpr std::string_view kSeparator = ", ";
  constexpr auto kCount = static_cast<std::size_t>(std::ranges::count(kOtherImageEndings, ',')) + 1;
  std::array<std::string_view, kCount> endings;
  std::string_view rest = kOtherImageEndings;
  for (auto& ending : endings) {
    const auto end = std::min(rest.find(kSeparator), rest.size());
    ending = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kSeparator.size(), rest.size()));
  }
  return endings;
}

// What a listing says about a name.
struct Entry {
  mode_t type = 0;  // the type bits of st_mode, of what a link leads to; 0 for a broken link
  bool is_link = false;
  dev_t device = 0;  // of a folder behind a link
  ino_t inode = 0;
};

// Throws a transient SampleError when the store does not say: the name must not be left out for that.
bool is_there(int folder, const char* name, int flags, struct stat& status) {
  if (::fstatat(folder, name, &status, flags) == 0) return true;
  const SampleError failure = system_failure(std::string("cannot inspect ") + name, errno);
  if (failure.is_transient()) throw SampleError(failure);
  return false;
}

// A link named like an image or an annotation is not followed: that would cost a system call for each sample of a data
// set made of links.
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

[[noreturn]] void cannot_list() { throw system_failure("cannot list the folder", errno); }

// Throws SampleError when it cannot be listed, as all that follows.
Directory open_directory(const std::string& path) {
  if (Directory directory{::opendir(path.empty() ? "." : path.c_str())}) return directory;
  cannot_list();
}

// Calls on_folder(path, entry) for each folder in it and adds the files to the scan.
template <typename OnFolder>
void list(DIR& directory, const std::string& folder, Scan& scan, OnFolder&& on_folder) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(&directory);
    if (entry == nullptr && errno != 0) cannot_list();
    if (entry == nullptr) return;
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

void append(Scan&& found, Scan& scan) {
  scan.images.append(std::move(found.images));
  scan.annotations.append(std::move(found.annotations));
  scan.others.append(std::move(found.others));
  scan.folders.append(std::move(found.folders));
  std::ranges::move(found.unusable, std::back_inserter(scan.unusable));
}

class Walk {
 public:
  Walk(const std::string& root, unsigned threads, const IndexProgress& progress)
      : root_(root), threads_(std::max(threads, 1U)), progress_(progress) {}

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

  // Lists the folders; returns those in them.
  std::vector<Folder> list_all(const std::vector<Folder>& folders) {
    constexpr std::size_t kMostAtOnce = 64;
    const std::size_t at_once = std::clamp<std::size_t>(folders.size() / (std::size_t{8} * threads_), 1, kMostAtOnce);
    std::vector<Folder> next;
    ParallelTask task;
    task.count = (folders.size() + at_once - 1) / at_once;
    task.body = [&](std::size_t turn) {
      Found found;
      for (const Folder& folder :
           std::span(folders).subspan(turn * at_once).first(std::min(at_once, folders.size() - turn * at_once))) {
        visit_patiently(folder, found);
      }
      const std::lock_guard lock(mutex_);
      append(std::move(found.scan), scan_);
      std::ranges::move(found.folders, std::back_inserter(next));
      std::ranges::move(found.links, std::back_inserter(links_));
    };
    const auto report = [this](std::uint64_t, std::uint64_t) {
      if (progress_) progress_(files_, files_);
    };
    if (task.count > 1) {
      run_parallel(task, threads_, report);
    } else {
      task.body(0);  // the root needs no thread
      report(0, 0);
    }
    return next;
  }

  // The folders behind the links that the walk came to, in the order of their names, so that the result does not depend
  // on threads.
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

  void visit_patiently(const Folder& folder, Found& found) {
    try {
      Found mine = read_patiently([&] { return visit(folder); });
      files_ += mine.scan.images.size() + mine.scan.annotations.size();
      append(std::move(mine.scan), found.scan);
      std::ranges::move(mine.folders, std::back_inserter(found.folders));
      std::ranges::move(mine.links, std::back_inserter(found.links));
    } catch (const SampleError& error) {
      if (folder.path.empty()) throw ConfigError("dataset.path = \"" + root_ + "\": " + error.what());
      if (error.is_transient()) end_scan(join_path(root_, folder.path), error);
      found.scan.unusable.push_back({folder.path, error.what(), true});
    }
  }

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
  std::map<std::pair<dev_t, ino_t>, unsigned> followed_;  // links to each folder
  std::mutex mutex_;                                      // of what follows, while threads list
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

// A folder may well be called "x.jpg"; without an image in it, it is reported as a mistake. REQUIRES: sort_files.
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

void end_scan(const std::string& path, const SampleError& error) {
  throw ConfigError("dataset.path: " + path + ": " + error.what() +
                    "; an index of what can be read now would lack the rest: build it again when the store is well");
}

bool is_jpeg_name(std::string_view name) noexcept {
  return ends_with_ignoring_case(name, ".jpg") || ends_with_ignoring_case(name, ".jpeg") ||
         ends_with_ignoring_case(name, ".jpe");
}

bool is_image_name(std::string_view name) noexcept {
  static constexpr auto kEndings = other_image_endings();
  return is_jpeg_name(name) || std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
           return ends_with_ignoring_case(name, ending);
         });
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
  Scan scan = Walk(root, threads, progress).run();
  sort_files(scan);
  report_folders_named_like_images(scan);
  sort_unusable(scan);
  return scan;
}

Scan scan_folder(const std::string& root, const std::string& folder) {
  const std::string path = join_path(root, folder);
  Scan scan;
  try {
    scan = read_patiently([&] {
      Scan anew;
      list(*open_directory(path), folder, anew, [](const std::string&, const Entry&) {});
      return anew;
    });
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(path, error);
  }
  sort_files(scan);
  sort_unusable(scan);
  return scan;
}

}  // namespace forebay

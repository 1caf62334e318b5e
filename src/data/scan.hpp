#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "image_kinds.hpp"

namespace forebay::data {

// Many paths in few allocations: each takes 16 bytes besides its characters, whereas a std::string takes 32 and often
// an allocation. Views of paths stay valid as long as their list lives, even if it is moved or appended to another.
class PathList {
 public:
  void add(std::string_view path) {
    if (blocks_.empty() || blocks_.back().size - blocks_.back().used < path.size()) {
      const std::size_t usual = kLargestBlock >> (blocks_.size() < 6 ? 6 - blocks_.size() : 0);
      const std::size_t size = std::max(usual, path.size());
      blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size, 0});
    }
    Block& block = blocks_.back();
    char* const at = block.bytes.get() + block.used;
    std::copy(path.begin(), path.end(), at);
    paths_.emplace_back(at, path.size());
    block.used += path.size();
  }
  // Appends all of another list, which is empty afterwards.
  void append(PathList&& other) {
    paths_.insert(paths_.end(), other.paths_.begin(), other.paths_.end());
    std::ranges::move(other.blocks_, std::back_inserter(blocks_));
    other = {};
  }
  // Bytewise.
  void sort() { std::sort(paths_.begin(), paths_.end()); }

  [[nodiscard]] std::size_t size() const noexcept { return paths_.size(); }
  [[nodiscard]] bool empty() const noexcept { return paths_.empty(); }
  // REQUIRES: i < size().
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept { return paths_[i]; }
  [[nodiscard]] auto begin() const noexcept { return paths_.begin(); }
  [[nodiscard]] auto end() const noexcept { return paths_.end(); }
  [[nodiscard]] std::span<const std::string_view> view() const noexcept { return paths_; }

 private:
  struct Block {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
    std::size_t used = 0;
  };
  // The first block has 4 KiB, for the few names of a folder; each further one is twice as large, up to this.
  static constexpr std::size_t kLargestBlock = std::size_t{256} << 10U;

  std::vector<std::string_view> paths_;
  std::vector<Block> blocks_;  // the last one has room left
};

// A summary of a set of names, independent of their order: different sets differ in count or sum, up to collisions of
// 64 bits.
struct NameSum {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;

  void add(std::string_view name, bool is_folder) noexcept;
  friend bool operator==(const NameSum&, const NameSum&) = default;
};

// The state of a folder when it was listed, to determine later whether its names are still the same.
struct ListedFolder {
  static constexpr std::uint64_t kAbsent = 1;

  std::string path;
  std::uint64_t times = 0;   // times_of() it, before it was listed; kAbsent if it was not there
  NameSum data = {};         // images, annotations and folders
  NameSum annotations = {};  // annotations, and folders named Annotations
  NameSum bare = {};         // files without an extension
  NameSum texts = {};        // .txt, as YOLO's labels are called
  NameSum json = {};         // .json, as labelme's
  NameSum videos = {};
};
// The times of a file or folder, and the size of a file, combined into one number, which differs if one of them does. 0
// if it was changed so recently that a later change may not change the times.
[[nodiscard]] std::uint64_t times_of(const struct stat& status) noexcept;

// The content of a folder. Paths are relative to it, without "./", and each list is sorted bytewise, so that it does
// not depend on threads or the file system's order. Hidden files and folders (names with a leading dot) are left out.
struct Scan {
  PathList images;                   // kImageEndings in any case; a link is assumed to lead to a file
  PathList annotations;              // .xml in any case
  PathList others;                   // files with other names
  PathList folders;                  // all of them, links to folders included
  std::vector<Skipped> unusable;     // images that are not files, broken links, link loops
  std::vector<ListedFolder> listed;  // in no order
};

// The reason of a broken link that is named like a folder: it may lead to a disk that is not mounted.
inline constexpr std::string_view kLinkToNothing =
    "a link to what is not there or cannot be seen, such as a folder on a disk that is not mounted";

// Whether a system made a folder of that name, which holds no data, or only small copies of it, such as thumbnails.
[[nodiscard]] bool is_stray(std::string_view name) noexcept;
// The report of such a folder, which is left out.
[[nodiscard]] Skipped stray_folder(const std::string& path);

// Ends the scan because the store fails: no index is made of an incomplete listing, because it may be kept for years.
// Throws ConfigError.
[[noreturn]] void end_scan(const std::string& path, const SampleError& error);

[[nodiscard]] bool is_jpeg_name(std::string_view name) noexcept;
// By kImageEndings.
[[nodiscard]] bool is_image_name(std::string_view name) noexcept;
// Whether it has an extension of images that no format reads.
[[nodiscard]] bool is_unread_image_name(std::string_view name) noexcept;
// By kVideoEndings.
[[nodiscard]] bool is_video_name(std::string_view name) noexcept;
[[nodiscard]] bool is_annotation_name(std::string_view name) noexcept;
// "Annotations" in any case, the name of the folder in Pascal VOC, ILSVRC and their imitators.
[[nodiscard]] bool is_annotations_folder(std::string_view name) noexcept;
// That name, and others that such folders often have: annots, labels, xml and the like.
[[nodiscard]] bool may_hold_annotations(std::string_view name) noexcept;

// The part before the first '/' of a relative path; all of it if there is none.
[[nodiscard]] std::string_view first_component(std::string_view path) noexcept;
// The part after the last '/', and the part before it ("" if there is none).
[[nodiscard]] std::string_view base_name(std::string_view path) noexcept;
[[nodiscard]] std::string_view parent_folder(std::string_view path) noexcept;
// The part after the last '/' without its extension, and the whole path without it.
[[nodiscard]] std::string_view stem_of(std::string_view path) noexcept;
[[nodiscard]] std::string_view without_extension(std::string_view path) noexcept;
// folder + "/" + name, or the name alone below "".
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);
// The folders with which all paths begin, including the last '/'; "" if there are none. REQUIRES: at least one path.
[[nodiscard]] std::string_view common_folder(std::span<const std::string> paths) noexcept;

// Lists `root` and everything below it with several threads. Follows links to folders, except into a folder that
// contains them, and at most 64 links to one folder. Progress reports the files found so far as both numbers. Throws
// ConfigError naming dataset.path if `root` itself cannot be listed.
[[nodiscard]] Scan scan_tree(const std::string& root, unsigned threads, const IndexProgress& progress);

// The same for `folder` below `root` only: its folders are listed but not entered. A folder that cannot be listed is
// empty, and kAbsent.
[[nodiscard]] Scan scan_folder(const std::string& root, const std::string& folder);

// scan_folder() and scan_tree() for objects in a store, whose folders are implied by their names. The state of folders
// is not recorded, because nobody lists them again. Throws SampleError, ConfigError.
[[nodiscard]] Scan scan_objects(const std::string& root, const std::string& folder, bool is_deep);
[[nodiscard]] Scan scan_objects(const std::string& root, unsigned threads, const IndexProgress& progress);

}  // namespace forebay::data

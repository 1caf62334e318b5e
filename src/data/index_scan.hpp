#pragma once

#include <forebay/dataset.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "index_paths.hpp"

namespace forebay {

// What lies below a folder. Paths are relative to it, without "./", each list sorted bytewise, so that it does not
// depend on threads or on the order in which the file system lists names. Hidden files and folders (names with a
// leading dot) are left out.
struct Scan {
  PathList images;                // .jpg .jpeg .jpe in any case; a link is believed to lead to a file
  PathList annotations;           // .xml in any case
  PathList others;                // files with other names
  PathList folders;               // all of them, links to folders included
  std::vector<Skipped> unusable;  // image names that are no files, folders that cannot be listed, link loops
};

[[nodiscard]] bool is_image_name(std::string_view name) noexcept;
[[nodiscard]] bool is_annotation_name(std::string_view name) noexcept;
// "Annotations" in any case, as Pascal VOC, ILSVRC and their imitators call the folder.
[[nodiscard]] bool is_annotations_folder(std::string_view name) noexcept;
// The same, and the other names that such folders often have: annots, labels, xml and the like.
[[nodiscard]] bool may_hold_annotations(std::string_view name) noexcept;

// The part before the first '/' of a relative path; all of it when there is none.
[[nodiscard]] std::string_view first_component(std::string_view path) noexcept;
// The part after the last '/', and what stands before it ("" when there is none).
[[nodiscard]] std::string_view base_name(std::string_view path) noexcept;
[[nodiscard]] std::string_view parent_folder(std::string_view path) noexcept;
// The part after the last '/' without its extension.
[[nodiscard]] std::string_view stem_of(std::string_view path) noexcept;
// folder + "/" + name, or the name alone below "".
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);

// Lists `root` and everything below it with several threads, following links to folders except into a folder that they
// are in, and at most 64 links to one folder. Progress: files found so far, of as many. Throws ConfigError naming
// dataset.path when `root` itself cannot be listed.
[[nodiscard]] Scan scan_tree(const std::string& root, unsigned threads, const IndexProgress& progress);

// The same for `folder` below `root` alone, without going deeper: its folders are listed, not entered. A folder that
// cannot be listed is empty.
[[nodiscard]] Scan scan_folder(const std::string& root, const std::string& folder);

}  // namespace forebay

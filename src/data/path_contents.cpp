#include "path_contents.hpp"

#include <algorithm>
#include <cerrno>
#include <forebay/error.hpp>

#include "base/file_io.hpp"

namespace forebay {

PathContents::PathContents(const BuildContext& context) : context_(context), root_(absolute_path(options().path)) {
  if (options().path.empty()) {
    throw ConfigError(
        "dataset.path is not set; it names a folder of images, a file list or a file of records, such as idx");
  }
  struct stat status {};
  if (::stat(options().path.c_str(), &status) != 0) {
    throw path_error(options(), errno == ENOENT ? "there is no such file or folder"
                                                : system_failure("cannot look at it", errno).what());
  }
  is_folder_ = S_ISDIR(status.st_mode);
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (!is_folder_ && !S_ISREG(status.st_mode)) {
    throw path_error(options(), describe_special(status.st_mode) + ", neither a folder nor a file");
  }
}

std::span<const std::byte> PathContents::head() {
  constexpr std::size_t kHead = 4096;  // enough to tell text from what is not
  if (head_) return *head_;
  try {
    const OpenFile file = open_regular(options().path);
    std::vector<std::byte> head(std::min(file.size, kHead));
    read_at(file.descriptor, 0, head);
    return head_.emplace(std::move(head));
  } catch (const SampleError& error) {
    throw path_error(options(), error.what());
  }
}

const Scan& PathContents::listing() {
  if (!listing_) listing_ = scan_folder(root_, "");
  return *listing_;
}

Scan& PathContents::tree() {
  if (!tree_) tree_ = scan_tree(root_, context_.threads, context_.progress);
  return *tree_;
}

const Pairing& PathContents::pairing() {
  if (!pairing_) {
    adopt_bare_annotations(root_, tree());
    pairing_ = pair_annotations(*tree_);
  }
  return *pairing_;
}

}  // namespace forebay

#include "index_build.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "dataset_pairing.hpp"
#include "index_parallel.hpp"

namespace forebay {
namespace {

enum class PathKind { folder, file };

PathKind kind_of_path(const DatasetOptions& options) {
  if (options.path.empty()) {
    throw ConfigError("dataset.path is not set; it names a folder of images, a file list or an idx file of images");
  }
  struct stat status {};
  if (::stat(options.path.c_str(), &status) != 0) {
    throw path_error(options, errno == ENOENT ? "there is no such file or folder"
                                              : system_failure("cannot look at it", errno).what());
  }
  if (S_ISDIR(status.st_mode)) return PathKind::folder;
  if (S_ISREG(status.st_mode)) return PathKind::file;
  throw path_error(options, describe_special(status.st_mode) + ", neither a folder nor a file");
}

void require_kind(const DatasetOptions& options, PathKind kind, PathKind wanted, const std::string& what) {
  if (kind == wanted) return;
  throw path_error(options, std::string(kind == PathKind::folder ? "is a folder" : "is a file") + ", but format = \"" +
                                options.format + "\" needs " + what);
}

// What a file begins with; little is enough to tell text from idx.
std::vector<std::byte> head_of(const DatasetOptions& options) {
  constexpr std::size_t kHead = 4096;
  try {
    const OpenFile file = open_regular(options.path);
    std::vector<std::byte> head(std::min(file.size, kHead));
    read_at(file.descriptor, 0, head);
    return head;
  } catch (const SampleError& error) {
    throw path_error(options, error.what());
  }
}

std::unique_ptr<Dataset> build_detected_file(const BuildContext& context) {
  const std::vector<std::byte> head = head_of(context.options);
  if (head.empty()) throw path_error(context.options, "the file is empty");
  if (starts_as_idx(head)) return build_idx(context);
  const bool is_text = std::find(head.begin(), head.end(), std::byte{0}) == head.end() &&
                       (head[0] != std::byte{0xFF} || head[1] != std::byte{0xD8});
  if (is_text) return build_filelist(context);
  throw path_error(context.options,
                   "the file is neither a text file with one path[,label] per line nor an idx file of images");
}

std::unique_ptr<Dataset> build_detected_folder(const BuildContext& context) {
  const std::string root = absolute_path(context.options.path);
  if (!find_idx_images(root).empty()) return build_idx(context);
  return build_detected_tree(context, root, scan_tree(root, context.threads, context.progress));
}

}  // namespace

std::unique_ptr<Dataset> build_dataset_with(const BuildContext& context) {
  const DatasetOptions& options = context.options;
  const PathKind kind = kind_of_path(options);
  const std::string root = absolute_path(options.path);
  if (options.format == "auto") {
    return kind == PathKind::folder ? build_detected_folder(context) : build_detected_file(context);
  }
  if (options.format == "voc") {
    require_kind(options, kind, PathKind::folder, "a folder of images and XML files");
    Scan scan = scan_tree(root, context.threads, context.progress);
    adopt_bare_annotations(root, scan);
    return build_voc(context, root, scan, pair_annotations(scan));
  }
  if (options.format == "folder") {
    require_kind(options, kind, PathKind::folder, "a folder of class folders");
    return build_folder(context, root, scan_tree(root, context.threads, context.progress));
  }
  if (options.format == "filelist") {
    require_kind(options, kind, PathKind::file, "a text file with one path[,label] per line");
    return build_filelist(context);
  }
  if (options.format == "idx") return build_idx(context);
  throw ConfigError("dataset.format = \"" + options.format + "\": known are auto, voc, filelist, folder and idx");
}

std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  return build_dataset_with({.options = options, .progress = progress, .threads = index_threads()});
}

}  // namespace forebay

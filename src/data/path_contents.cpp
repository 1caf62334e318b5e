// Determines what dataset.path stands for: a file, a folder, the files that a pattern matches, a
// part of a YAML file, or the same behind a URL. This happens once, when an index is built or its
// origin is compared. For a URL it follows from the name alone, so that a run that already has its
// index sends no request.

#include <sys/stat.h>
#include <cerrno>
#include <forebay/error.hpp>
#include <utility>

#include "base/file_io.hpp"
#include "build.hpp"
#include "path_pattern.hpp"
#include "store/http.hpp"
#include "store/url.hpp"
#include "yolo_config.hpp"

namespace forebay::data {
namespace {

// A pattern that matches nothing is nearly always misspelled, so it is an error, like an empty
// dataset.
std::vector<std::string> files_of_pattern(const DatasetOptions& options, const std::string& pattern) {
  try {
    std::vector<std::string> files = expand_path_pattern(pattern);
    if (!files.empty()) return files;
  } catch (const ConfigError& error) {
    throw path_error(options, error.what());
  }
  throw path_error(options, "no file matches it");
}

}  // namespace

// Anything that has exactly this name takes precedence. Only if nothing does can the path be
// "FILE.yaml:PART" or a pattern, because file names may contain ':', '*' and braces.
PathContents::PathContents(const BuildContext& context) : context_(context), root_(absolute_path(options().path)) {
  if (options().path.empty()) {
    throw ConfigError(
        "dataset.path is not set; it names a folder of images, a file list or a file of records, such as idx");
  }
  struct stat status {};
  if (store::is_url(root_)) {
    take_url();
    return;
  }
  files_ = {root_};
  if (::stat(root_.c_str(), &status) != 0) {
    if (errno != ENOENT) throw path_error(options(), system_failure("cannot inspect it", errno).what());
    auto [file, part] = part_of_yaml(root_);
    if (!part.empty() && ::stat(file.c_str(), &status) == 0) {
      files_ = {file};
      root_ = std::move(file);
      part_ = std::move(part);
    } else {
      take_pattern(status);
    }
  }
  is_folder_ = S_ISDIR(status.st_mode);
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (!is_folder_ && !S_ISREG(status.st_mode)) {
    throw path_error(options(), describe_special(status.st_mode) + ", neither a folder nor a file");
  }
}

// The URL itself says what it stands for; no request is made yet.
void PathContents::take_url() {
  (void)store::object_name(root_);
  store::require_http();
  is_pattern_ = is_path_pattern(root_);
  is_folder_ = !is_pattern_ && store::is_prefix(root_);
  if (is_folder_ && !store::is_bucket(root_)) {
    throw path_error(options(),
                     "a web server lists no files: name them (https://host/shard-{00..63}.tar), or in a file list");
  }
  while (root_.ends_with('/')) root_.pop_back();
  files_ = is_pattern_ ? files_of_pattern(options(), root_) : std::vector{root_};
}

// The files are inspected from last to first, so that `status` is that of the first one in the end.
void PathContents::take_pattern(struct stat& status) {
  if (!is_path_pattern(root_)) {
    const bool is_scheme = options().path.find("://") != std::string::npos;
    throw path_error(options(), is_scheme ? "URLs that are read begin with https://, http://, s3:// or gs://"
                                          : "there is no such file or folder");
  }
  is_pattern_ = true;
  files_ = files_of_pattern(options(), root_);
  for (std::size_t i = files_.size(); i-- > 0;) {
    if (::stat(files_[i].c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw path_error(options(), "there is no file " + files_[i]);
    }
  }
}

}  // namespace forebay::data

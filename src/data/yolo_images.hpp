#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"
#include "yolo_config.hpp"

namespace forebay::data {

// The images that a path stands for, and what is known about the classes in their labels.
struct YoloImages {
  std::string root;                // absolute; the dataset's folder
  std::vector<std::string> paths;  // absolute, sorted, each once
  std::vector<std::string> names;  // class names by number; empty: unknown
  std::size_t keypoint_numbers = 0;
  std::vector<ListedFolder> listed;  // absolute, sorted by path, each once: where images were looked for
};

// `dataset.path` is a data.yaml, which means its part train, or one of its parts, "data.yaml:val";
// a list of images; or a folder of images, whose classes are named by a data.yaml or classes.txt in
// it or above. Logs entries that are not images. Throws ConfigError naming dataset.path, also for a
// folder of several parts unless dataset.format says "yolo".
[[nodiscard]] YoloImages find_yolo_images(PathContents& contents, SkipLog& skipped);

// Where an image's labels may be, best first: with the last images/ in its path replaced by labels/, and beside it.
[[nodiscard]] std::vector<std::string> places_of_labels(std::string_view image);

// The files and folders besides images and labels on which such a dataset depends.
struct YoloSources {
  std::vector<std::string> files;    // its data.yaml or classes.txt, and lists of images
  std::vector<std::string> folders;  // those named in its data.yaml, as found here
};
[[nodiscard]] YoloSources yolo_sources(const DatasetOptions& options);

}  // namespace forebay::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "scene.hpp"

namespace forebay::cli {

// The task of a generated dataset.
enum class Task : std::uint8_t { classification, segmentation, detection, multilabel, video };

// A generated dataset of shapes on textured backgrounds. Size and position do not depend on the class, nor does colour
// unless Colours::by_class.
struct DatasetPlan {
  enum class Layout : std::uint8_t {
    voc,     // JPEGImages/NUMBER.jpg with Annotations/NUMBER.xml, several objects each
    folder,  // CLASS/NUMBER.jpg, one object each, filling the picture
    masks,   // images/NUMBER.jpg with masks/NUMBER.png, whose values are 0 for background and class numbers from 1
    videos,  // CLASS/NUMBER.avi; the class is the direction of the motion
    table,   // images/NUMBER.jpg with labels.csv: paths, and the names of the classes in each image
  };

  std::filesystem::path directory;
  Task task = Task::classification;
  Layout layout = Layout::voc;
  Colours colours = Colours::any;
  std::uint64_t images = 0;
  std::size_t classes = 0;  // the first so many of shapes(), or of the motions of videos
  std::uint64_t seed = 0;
  int width = 0;
  int height = 0;
  std::size_t most_objects = 1;  // per image; at least 1
  int quality = 85;
  double split = 0;  // > 0: this share of the images goes to directory/val, the others to directory/train
  unsigned threads = 1;
};

struct MadeDataset {
  std::uint64_t training = 0;    // images
  std::uint64_t validation = 0;  // images
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // of the JPEG files, or the videos
};

// Writes the dataset: the same bytes for the same plan, whatever `threads` and `directory` are. The
// numbers of objects of any two classes differ by at most one. Calls progress(images done, images)
// on the calling thread. Throws ConfigError for a plan that cannot be carried out, Error naming a
// file that cannot be written.
MadeDataset make_dataset(const DatasetPlan& plan, const std::function<void(std::uint64_t, std::uint64_t)>& progress);

// The configuration that feeds a plan's dataset to a trainer for its task, as TOML.
[[nodiscard]] std::string feeding_config(const DatasetPlan& plan);

}  // namespace forebay::cli

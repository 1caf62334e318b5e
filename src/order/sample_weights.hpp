#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::order {

// Names by which samples are told apart wherever the data lie: paths below the dataset's root, as in
// "cat/0001.jpg#object 2". Names of a program's own dataset stay as they are. The dataset must outlive this. Any
// thread.
class SampleNames {
 public:
  explicit SampleNames(const Dataset& dataset);

  [[nodiscard]] std::string of(std::uint64_t id) const;
  // The name without "#object N" or "[frame N]": the same for all objects of an image, and all clips of a video.
  [[nodiscard]] std::string of_source(std::uint64_t id) const;

 private:
  const Dataset& dataset_;
  std::string below_;  // "/data/train/"; empty for a program's own dataset
};

// Calls the function for every sample, on several threads and in no order: names and labels of a large index lie in its
// file. Throws what the function throws.
void for_each_sample(const Dataset& dataset, const std::function<void(std::uint64_t id)>& call);

// The weight of each sample that `ids` names, from a file with a name and a number of 0 or more per line: a sample's
// name, an image's (for all of its objects), or a class's. The first of these that the file has counts, else the weight
// is 1. Throws ConfigError naming file and line for a name that is none of these or is listed twice.
[[nodiscard]] std::vector<double> read_weights(const std::string& file, const Dataset& dataset,
                                               std::span<const std::uint32_t> ids);

}  // namespace forebay::order

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::order {

// Names that identify samples independently of where the data lie: paths below the dataset's root,
// as in "cat/0001.jpg#object 2". A program's own dataset has its own names. The dataset must
// outlive this. Any thread may call.
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

// Calls the function for every sample, on several threads and in no particular order. (Names and
// labels of a large index are read from its file.) Throws what the function throws.
void for_each_sample(const Dataset& dataset, const std::function<void(std::uint64_t id)>& call);

// The weight of each sample in `ids`, from a file that has a name and a number of 0 or more per
// line. A name is that of a sample, of an image (for all of its objects), or of a class; the first
// of these that the file has counts. Without any, the weight is 1. Throws ConfigError, naming file
// and line, for a name that is none of these or is listed twice.
[[nodiscard]] std::vector<double> read_weights(const std::string& file, const Dataset& dataset,
                                               std::span<const std::uint32_t> ids);

}  // namespace forebay::order

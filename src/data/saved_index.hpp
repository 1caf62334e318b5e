#pragma once

#include <memory>
#include <string>

#include <forebay/dataset.hpp>

namespace forebay::data {

// Whether folders, annotations and files of records are still those from which an index was made. Times are compared
// first; if they differ, names and contents (data_state.hpp).
struct DataComparison {
  std::string done = {};  // "3 folders and 8 annotations in 0.01 s, 2 of them by their contents"; empty: nothing to do
  std::string difference = {};  // the first; empty if there is none
  bool times_differ = false;
};
// Throws ConfigError if the store fails. Does nothing for a program's own dataset.
[[nodiscard]] DataComparison compare_with_data(const Dataset& dataset, const IndexProgress& progress);

// The same, including the lists, tables and other files whose hash the index has. If the data do not exist, because the
// index was copied to another machine, `done` says so and nothing is compared.
[[nodiscard]] DataComparison compare_all_with_data(const Dataset& dataset, const IndexProgress& progress);

// A remark on a saved index after comparison with its data; may be empty.
struct IndexRemark {
  std::string text;
  bool is_warning = false;  // times differ: files may have been replaced under their names
};

// What open_dataset() opens.
struct OpenedDataset {
  std::unique_ptr<Dataset> dataset;
  IndexRemark remark;
};
[[nodiscard]] OpenedDataset open_with_remark(const DatasetOptions& options, const IndexProgress& progress);

}  // namespace forebay::data

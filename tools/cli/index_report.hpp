#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <nlohmann/json.hpp>

#include "data/placed_samples.hpp"
#include "order/mixing.hpp"

namespace forebay::cli {

// Counts of a field of boxes.
struct BoxCounts {
  // Reads the boxes of every sample.
  BoxCounts(const Dataset& dataset, std::size_t field);

  std::string field;
  std::vector<std::pair<std::string, std::uint64_t>> per_class;  // in the order of their numbers
  std::uint64_t boxes = 0;
  std::uint64_t largest = 0;   // in one sample
  std::uint64_t too_many = 0;  // samples with more than a batch has room for
  std::int64_t room = 0;       // the field's `most`
};

// How well the order of a run mixes this many samples, compared with a shuffle of all samples
// (mixing_report.cpp). Examines only part of an epoch, so it takes a fraction of a second for any
// number of samples.
struct MixingReport {
  // REQUIRES: samples is at least 1.
  MixingReport(const DatasetOptions& options, std::uint64_t seed, std::uint64_t samples);

  order::Mixing mixing;
  order::Mixing shuffle;         // of all samples
  double meetings = 0;           // see order::meetings(); 0: the order has no parts
  std::string order;             // in words
  std::uint64_t batch_size = 1;  // at most `samples`
  std::uint64_t run = 1;         // samples within this distance in storage count as neighbours
};

// Two or three lines for people, all but the first indented to the column of values.
[[nodiscard]] std::string to_text(const MixingReport& report);

// What `forebay index` reports about a dataset.
struct IndexReport {
  // Reads every sample's label.
  explicit IndexReport(const Dataset& dataset);

  const Dataset& dataset;
  std::vector<std::uint64_t> per_class;  // samples, in the order of dataset.classes()
  std::uint64_t unlabelled = 0;
  std::vector<BoxCounts> boxes;  // by field
  std::uint64_t bad = 0;         // entries left out because they are bad
  std::string fingerprint;       // 16 hexadecimal digits
  std::uint64_t bytes = 0;       // of the serialized index
  data::MissingFiles missing;    // empty unless looked for
  std::optional<MixingReport> mixing;
};

// For people: names the first `most_skipped` entries that were left out.
[[nodiscard]] std::string to_text(const IndexReport& report, std::uint64_t most_skipped);

// The whole report as one object.
[[nodiscard]] nlohmann::ordered_json to_json(const IndexReport& report);

}  // namespace forebay::cli

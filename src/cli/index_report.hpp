#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/record_table.hpp"

namespace forebay {

// What `forebay index` says of a dataset.
struct IndexReport {
  // Reads every sample's label.
  explicit IndexReport(const Dataset& dataset);

  const Dataset& dataset;
  std::vector<std::uint64_t> per_class;  // samples, in the order of dataset.classes()
  std::uint64_t unlabelled = 0;
  std::uint64_t bad = 0;    // skipped for damage
  std::string fingerprint;  // 16 hexadecimal digits
  std::uint64_t bytes = 0;  // of the serialized index
  MissingFiles missing;     // empty unless looked for
};

// For people: names the first `most_skipped` entries that were left out.
[[nodiscard]] std::string to_text(const IndexReport& report, std::uint64_t most_skipped);
// One JSON object with everything.
[[nodiscard]] std::string to_json(const IndexReport& report);

}  // namespace forebay

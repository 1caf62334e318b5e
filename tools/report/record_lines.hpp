#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/figures.hpp"

namespace forebay::report {

// Reads lines written by append_json_line(), at hundreds of megabytes per second. Any thread may
// call.
template <typename Record>
class LineReader {
 public:
  // `wanted`: keys of the figures to read; every line must have them.
  explicit LineReader(measure::Figures<Record> figures, std::span<const std::string_view> wanted);

  // Sets the wanted figures of `record` and leaves the others alone. Returns what is wrong with the
  // line, or "". Keys that are not figures are skipped: a newer Forebay may have written them.
  [[nodiscard]] std::string read(std::string_view line, Record& record) const;

 private:
  measure::Figures<Record> figures_;
  std::vector<std::string> quoted_;  // their keys in quotes, with the colon
  std::uint64_t wanted_ = 0;         // a bit for each figure
};

extern template class LineReader<measure::StepRecord>;
extern template class LineReader<measure::Interval>;

}  // namespace forebay::report

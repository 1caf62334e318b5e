#pragma once

#include <span>
#include <string>
#include <string_view>

#include <forebay/dataset.hpp>

#include "base/worker_status.hpp"

namespace forebay {

// Puts into words what worker threads are doing: threads of one kind that do the same are counted together, with
// the one that has done it longest as the example.
class WorkerReport {
 public:
  explicit WorkerReport(const Dataset& dataset) : dataset_(dataset) {}

  void add(std::string_view kind, std::span<const WorkerStatus> statuses);
  // "8 readers in the store (longest 4.2 s: data/a.jpg); 1 decoder waiting for work".
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  const Dataset& dataset_;
  std::string text_;
};

}  // namespace forebay

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <forebay/detail/pace.hpp>
#include <forebay/detail/pipeline.hpp>
#include <span>
#include <vector>

#include "reader_pool.hpp"
#include "stop_signal.hpp"

namespace forebay {

// What one reader thread does. It takes several requests at a time when reads are quick, and hands their bytes over
// together; it holds back nothing while it waits.
class Reader {
 public:
  // All references must outlive it.
  Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, WorkerStatus& status);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Waits for requests and serves some. False when there will be none. Throws Stopped, and what ends the run.
  [[nodiscard]] bool work();

 private:
  class Target;

  void serve(const ReadRequest& request);
  void read(const ReadRequest& request, std::uint32_t retry);
  void hand_over();

  ReaderLinks links_;
  ReaderOptions options_;
  StopSignal& stop_;
  WorkerStatus& status_;
  Pace pace_;
  std::array<ReadRequest, Pace::kMost> requests_{};
  std::vector<EncodedSample> read_;  // not handed over yet
};

}  // namespace forebay

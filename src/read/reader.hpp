#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/stop_signal.hpp"
#include "base/worker_status.hpp"
#include "desk.hpp"
#include "hedging.hpp"
#include "pace.hpp"
#include "read_request.hpp"
#include "reader_pool.hpp"

namespace forebay {

// What one reader thread does. It takes several requests at a time when reads are quick, and hands their bytes over
// together; it holds back nothing while it waits, and where slow reads are hedged nothing while it reads.
class Reader {
 public:
  // All references must outlive it; `hedging` may be null.
  Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, Desk& desk, Hedging* hedging,
         WorkerStatus& status);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Waits for requests and serves some. False when there will be none. Throws Stopped, and what ends the run.
  [[nodiscard]] bool work();

 private:
  class Target;

  void serve(const ReadRequest& request);
  // The second side of a race: tries once.
  void serve_second(const ReadRequest& request);
  void read(const ReadRequest& request, std::uint32_t retry);
  // The sample cannot be had, or the store has no room for this read: then there is no reason.
  void give_up(const ReadRequest& request, std::string_view reason);
  void hand_over();

  ReaderLinks links_;
  ReaderOptions options_;
  StopSignal& stop_;
  Desk& desk_;
  Hedging* hedging_;
  WorkerStatus& status_;
  Pace pace_;
  std::array<ReadRequest, Pace::kMost> requests_{};
  std::vector<EncodedSample> handed_over_;  // empty but for its memory
};

}  // namespace forebay

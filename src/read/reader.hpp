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
#include "hedging.hpp"
#include "pace.hpp"
#include "read_request.hpp"
#include "reader_pool.hpp"
#include "workload.hpp"

namespace forebay {

// What one reader thread does. When reads are quick it takes several requests at a time, and hands their bytes over at
// once. It holds nothing back while it waits, nor, if slow reads are hedged, while it reads.
class Reader {
 public:
  // All references must outlive it; `hedging` may be null.
  Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, Workload& workload, Hedging* hedging,
         WorkerStatus& status);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Waits for requests and serves some. False when there will be none. Throws Stopped, and errors that end the run.
  [[nodiscard]] bool work();

 private:
  class Target;

  void serve(const ReadRequest& request);
  // As the second side of a race: tries once.
  void serve_second(const ReadRequest& request);
  void read(const ReadRequest& request, std::uint32_t retry);
  // The sample cannot be read, or the budget has no room for this second read: then there is no reason.
  void give_up(const ReadRequest& request, std::string_view reason);
  void hand_over();

  ReaderLinks links_;
  ReaderOptions options_;
  StopSignal& stop_;
  Workload& workload_;
  Hedging* hedging_;
  WorkerStatus& status_;
  Pace pace_;
  std::array<ReadRequest, Pace::kMost> requests_{};
  std::vector<EncodedSample> handed_over_;  // empty between uses, to keep its memory
};

}  // namespace forebay

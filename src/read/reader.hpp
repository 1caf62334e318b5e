#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "data/placed_samples.hpp"
#include "hedging.hpp"
#include "reader_pool.hpp"
#include "requests.hpp"
#include "store_outage.hpp"
#include "workload.hpp"

namespace forebay::read {

// The work of one reader thread. When reads are quick it takes several requests at a time, and
// hands over their bytes together. It keeps nothing that others could work on while it waits nor,
// if slow reads are hedged, while a slow read lasts.
class Reader {
 public:
  // All references must outlive it; `hedging` may be null.
  Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, Workload& workload, Hedging* hedging,
         WorkerStatus& status);
  ~Reader() { add_to_totals(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Waits for requests and serves some. False if there will be no more. Throws Stopped, and errors that end the run.
  [[nodiscard]] bool work();

  enum class Outcome : std::uint8_t {
    read,   // the bytes are there
    bad,    // the sample was reported
    later,  // the read failed and may be tried again, or there is no room for its bytes now
  };
  // Reads a sample for the calling thread, once and without a wait for room.
  [[nodiscard]] Outcome read_now(EncodedSample& sample);
  // The calling thread now does something other than read.
  void end_reads() noexcept;

 private:
  class Target;
  class FieldTarget;

  void serve(const ReadRequest& request);
  // Whether the same read may succeed later. `truncated` counts those that found the file cut short.
  [[nodiscard]] bool may_pass(const SampleError& error, std::uint32_t& truncated) const noexcept;
  // Waits before a read that follows `retry` failed ones; false if the other side of a hedged read was quicker
  // meanwhile.
  [[nodiscard]] bool wait_to_retry(const ReadRequest& request, std::uint32_t retry);
  // As the second side of a hedged read: tries once.
  void serve_second(const ReadRequest& request);
  void try_once(const ReadRequest& request, std::uint32_t retry);
  void read(const ReadRequest& request, std::uint32_t retry);
  // The bytes of one sample.
  [[nodiscard]] EncodedSample fetch(const ReadRequest& request, std::uint32_t retry);
  void read_fields(const ReadRequest& request, std::uint32_t retry, Target& target);
  // Reads image and fields in one request; false if they have to be read one by one.
  [[nodiscard]] bool read_parts(const ReadRequest& request, Target& target);
  // Throws NoRoom if there is no memory for all of it now.
  void read_coalesced(const ReadRequest& request, std::uint32_t retry);
  void count_read(std::int64_t ns, std::size_t bytes);
  void add_to_totals() noexcept;
  // Gives up a read: its sample cannot be read, or the budget has no room for this second or
  // coalesced read, in which case there is no reason.
  void give_up(const ReadRequest& request, std::string_view reason);
  void hand_over();

  ReaderLinks links_;
  ReaderOptions options_;
  std::size_t fields_;                 // number of the dataset's fields
  const data::PlacedSamples* placed_;  // null = the dataset has no fields, or does not say where they are
  StopSignal& stop_;
  Workload& workload_;
  Hedging* hedging_;
  WorkerStatus& status_;
  // Whether the status was set just now, at the end of a read, and still says that this thread reads.
  bool status_is_of_last_read_ = false;
  bool may_wait_ = true;  // whether it may wait for room in the budget
  ChunkSize chunk_;
  // Counts that have not been added to the totals yet, which many threads share.
  struct {
    std::uint64_t delivered = 0;
    std::uint64_t ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t from_store = 0;
    std::uint64_t from_cache = 0;
    std::uint64_t cache_room = 0;
  } counted_;
  std::array<ReadRequest, ChunkSize::kMost> requests_{};
  std::vector<EncodedSample> handed_over_;  // empty between uses, to keep its memory
};

}  // namespace forebay::read

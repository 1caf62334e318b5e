#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "bad_samples.hpp"
#include "base/thread.hpp"
#include "device/gpu_decoding.hpp"
#include "make/batch_mixer.hpp"
#include "make/decoder_pool.hpp"
#include "make/field_maker.hpp"
#include "make/operation_chain.hpp"
#include "make/packed_file.hpp"
#include "make/sample_maker.hpp"
#include "measure/profiler.hpp"
#include "read/byte_budget.hpp"
#include "read/coalesced_reads.hpp"
#include "read/queues.hpp"
#include "read/read_pace.hpp"
#include "read/reader_pool.hpp"
#include "read/requests.hpp"
#include "read/store_outage.hpp"
#include "read/throttle.hpp"
#include "ring/queue_slots.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "ring/uploader.hpp"
#include "worker_tuning.hpp"

namespace forebay::measure {

class Timeline;

}  // namespace forebay::measure

namespace forebay::produce {

// The objects that a pipeline uses; all references must outlive it.
struct PipelineLinks {
  const Options& options;
  ring::Capacity capacity;  // of the ring
  const Dataset& dataset;
  const Order& order;
  const make::OperationChain& operations;
  measure::QuarantineLog& quarantine;
  measure::ConsoleLog& console;
  Failure& failure;
  const RunningTime& time;                           // for policy.watchdog_s, which limits the retries of failed reads
  std::span<std::byte> node_bandwidth;               // StorageThrottle::kSharedBytes shared by the ranks of the node
  std::function<void(std::string_view)> tell;        // logs lines about the workers
  bool may_be_slow = true;                           // the data are not on a local disk
  device::GpuDecoding* gpu_decoding = nullptr;       // null = the decoder threads decode everything
  const jpeg::PixelKernels* jpeg_kernels = nullptr;  // see JpegDecoder
  const jpeg::DecodeIndex* decode_index = nullptr;   // likewise
};

// Which workers a report includes.
enum class Workers : std::uint8_t { all, busy };

// The production side: an issuer thread claims slots for planned batches and requests their samples in order, readers
// fetch bytes, decoders write pixels into the slots, and the last sample of a slot publishes it, or has it copied to
// the device and published there.
class Pipeline final : private read::SampleHandler {
 public:
  // Starts the threads; throws Error if one cannot be started. `ahead`: how many batches may be planned and not yet
  // taken, at least the queue's largest capacity; those of a window come on top.
  Pipeline(const PipelineLinks& links, std::shared_ptr<SlotStore> store, const WorkerPlan& plan, std::uint32_t ahead);
  ~Pipeline() override { stop(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Joins all threads as soon as their current calls return, which a read may never do. Idempotent; one thread.
  void stop();

  // --- consumer thread ---
  // Batches that are planned and not yet taken.
  [[nodiscard]] std::uint64_t backlog() const noexcept { return ring_.planned() - ring_.taken(); }
  // Plans the batch for the next unplanned turn. The issuer sees it with the next ring().settle(). REQUIRES: backlog()
  // is less than `ahead`.
  void plan(const BatchRef& batch) noexcept;
  // Plans what next(backlog()) returns, a std::optional<BatchRef>, for as long as it returns one and there is room.
  template <typename Next>
  void plan_ahead(Next&& next) {
    while (backlog() < ahead_) {
      const std::optional<BatchRef> batch = next(backlog());
      if (!batch) return;
      plan(*batch);
    }
  }
  // The batch of a turn. REQUIRES: ring().taken() <= turn < ring().planned().
  [[nodiscard]] const BatchRef& planned(std::uint64_t turn) const noexcept { return plan_[turn & (plan_.size() - 1)]; }
  // The number of batches of an epoch in the backlog().
  [[nodiscard]] std::uint64_t planned_of(std::uint64_t epoch) const noexcept;

  [[nodiscard]] ring::SlotRing& ring() noexcept { return ring_; }
  [[nodiscard]] const ring::SlotRing& ring() const noexcept { return ring_; }
  [[nodiscard]] const read::WorkerTotals& totals() const noexcept { return totals_; }
  [[nodiscard]] BadSamples& bad_samples() noexcept { return errors_; }
  // Whether reads that are far slower than others of their kind are started a second time.
  [[nodiscard]] bool hedges() const noexcept {
    return links_.options.workers.hedge == Hedge::automatic && (links_.may_be_slow || throttle_.is_active());
  }
  // One line that says what every worker, or every busy one, is doing now; for the watchdog.
  [[nodiscard]] std::string report(Workers which = Workers::all) const;
  // The current figures. Any thread.
  [[nodiscard]] measure::Observation observe() const;
  // Makes the workers record what they do from now on. Once; the timeline must outlive stop().
  void note_in(measure::Timeline& timeline);

 private:
  // Samples of one slot that a decoder thread has written and not yet counted, to save updates of the count that
  // threads share.
  struct alignas(64) Written {
    std::uint32_t slot = 0;
    std::uint32_t samples = 0;
  };

  [[nodiscard]] read::ReaderLinks reader_links();
  // Tells the ring whether the workers are busy (ring invariant R9): decoders that read for themselves have half of all
  // batches still to do. With readers there may be latency to hide, which starts with the claim, so the answer is no.
  [[nodiscard]] bool are_decoders_busy() const noexcept;
  void end_issue();
  void prepare(std::span<const read::EncodedSample> samples, unsigned thread) override;
  std::uint32_t handle(const read::EncodedSample& encoded, unsigned thread) override;
  void finish_taken(unsigned thread) override { finish_written(thread); }
  // The pixels decoded by nvJPEG; null if libjpeg-turbo has to decode. REQUIRES: links_.gpu_decoding is not null.
  [[nodiscard]] const make::StoredPicture* decoded_on_gpu(const read::EncodedSample& encoded, unsigned thread);
  void add_members(const read::ReadRequest& request, std::vector<make::SampleMaker::Member>& members);
  void make_one(const read::EncodedSample& encoded, const make::StoredPicture* decoded,
                const read::ReadRequest& request, make::SampleMaker::Workspace& workspace);
  // Logs, once, that boxes are rotated with their image, according to the size stated by the sample's annotation.
  void tell_of_turn(const Sample& sample, const read::ReadRequest& request);
  // Makes the fields besides image and label, once it is known what the views in workspace.members show. REQUIRES: the
  // slots have fields.
  void make_fields(const read::EncodedSample& encoded, const read::ReadRequest& request,
                   make::SampleMaker::Workspace& workspace);
  // Adds the workspace's counts to the totals.
  void count(make::SampleMaker::Workspace& workspace) noexcept;
  // Makes all samples of a request at once. If false, nothing counts as made, and they must be made one by one.
  bool make_together(const read::EncodedSample& encoded, const make::StoredPicture* decoded,
                     make::SampleMaker::Workspace& workspace);
  void leave_out(const read::ReadRequest& request);
  // Counts samples of a slot as complete; the last ones publish it.
  void finish(std::uint32_t slot, std::uint32_t samples);
  void finish_written(unsigned thread);
  void issue();
  void request_batch(const ring::SlotRing::Claim& claim);
  // Passes the requests in issued_ to the readers or, if reads are quick, to the decoders.
  void request_issued();
  // Tells the coalesced reads which samples this rank will serve from the windows of the batch's samples.
  void plan_coalesced_reads(std::uint64_t turn);
  // Collects in planned_ what is planned of a window, from a turn on.
  void collect(std::uint64_t turn, std::uint64_t epoch, const PositionRange& window);
  [[nodiscard]] read::ReadRequest request_for(std::uint64_t turn, std::uint32_t index,
                                              std::uint32_t slot) const noexcept;

  PipelineLinks links_;
  std::shared_ptr<SlotStore> store_;
  std::uint64_t ahead_;
  // By turn, modulo the size. The consumer writes; the issuer reads a turn once it is planned (ring invariant R7),
  // before the turn is published, and so before the consumer takes it and may write to its place again.
  std::vector<BatchRef> plan_;
  ring::SlotRing ring_;
  make::SampleMaker maker_;
  std::optional<make::FieldMaker> field_maker_;  // none: samples have images and labels only
  std::optional<make::BatchMixer> mixer_;
  read::StorageThrottle throttle_;
  read::WorkerTotals totals_;
  read::ReadQueue requests_;
  read::EncodedQueue encoded_;
  read::ByteBudget budget_;
  std::unique_ptr<read::CoalescedReads> coalesced_;  // none if neighbours in storage are not close in the order
  std::optional<read::ReadPace> pace_;               // none if decoders read nothing
  read::StoreOutage outage_;
  BadSamples errors_;
  make::TableCache tables_;
  std::vector<make::SampleMaker::Workspace> workspaces_;
  std::vector<Written> written_;  // by thread, like workspaces_
  std::atomic<bool> stopped_{false};
  std::atomic<bool> has_told_of_turn_{false};
  WorkerStatus issuer_status_;
  std::vector<read::ReadRequest> issued_;    // those of one batch
  std::vector<read::EncodedSample> unread_;  // likewise, on their way to the decoders
  std::vector<read::ReadRequest> planned_;   // those of one window
  make::DecoderPool decoders_;
  read::ReaderPool readers_;
  std::optional<ring::Uploader> uploader_;  // none if batches are assembled in their slots
  WorkerTuning tuning_;
  std::thread issuer_;
};

}  // namespace forebay::produce

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "byte_budget.hpp"
#include "data/placed_samples.hpp"
#include "queues.hpp"
#include "requests.hpp"

namespace forebay::read {

// Limits on what one request may read.
struct CoalescingLimits {
  // The most unneeded bytes between two samples, or within one, that are read rather than skipped:
  // as many as a store delivers in the time of another request.
  std::uint64_t gap = std::uint64_t{128} << 10U;
  std::uint64_t bytes = std::uint64_t{8} << 20U;
  std::size_t samples = 256;
};

// Groups samples, as indexes into `placements`, ascending by place. A coalesced read has at least
// two samples; samples that are alone are in none. Of several samples at the same place only one is in a coalesced
// read.
[[nodiscard]] std::vector<std::vector<std::size_t>> coalesce(std::span<const std::optional<data::Placement>> placements,
                                                             const CoalescingLimits& limits);

// Samples of all planned batches that are near each other in a file are read in one request: a
// coalesced read.
//
// The issuer announces what is planned, and then asks for the samples of one batch after the other.
// Readers execute coalesced reads as soon as they are free, in the order in which the first samples
// are needed, provided that there is memory for all of them without waiting. Samples that were
// asked for by then go to the decoders; the others are kept until the issuer asks for them. When a
// reader has to wait for memory, kept samples are dropped, those needed last first, until there is room; they are read
// one by one later. So are the samples of a coalesced read that cannot be read: the reader of a single sample retries,
// and names the bad one.
//
// Kept samples can never hold up what is needed now: while anything is kept, there is room beside
// it for all that readers wait for. A waiting reader first joins the budget's queue and then has
// samples dropped until that holds; a thread that keeps a sample checks that queue afterwards.
class CoalescedReads {
 public:
  // References must outlive it. Sets the budget's shortage hook.
  CoalescedReads(const data::PlacedSamples& samples, ByteBudget& budget, ReadQueue& requests, EncodedQueue& encoded,
                 std::size_t budget_bytes);
  ~CoalescedReads();
  CoalescedReads(const CoalescedReads&) = delete;
  CoalescedReads& operator=(const CoalescedReads&) = delete;

  // --- issuer ---
  // Whether this place was passed to plan().
  [[nodiscard]] bool is_planned(std::uint64_t epoch, std::uint64_t position) const noexcept;
  // Announces samples of one epoch in the order in which they will be asked for: those that are
  // near each other in a file will be read together. If the budget is too small for all, only the
  // first of them are planned.
  void plan(std::span<const ReadRequest> requests);
  // Requests those samples of a batch that are in coalesced reads, and removes them from `requests`. REQUIRES: each
  // request is for one sample.
  void request(std::vector<ReadRequest>& requests);

  // --- readers ---
  // The coalesced read with this ReadRequest::coalesced; null once it was handed on or given up. Its
  // samples do not change.
  struct CoalescedRead;
  [[nodiscard]] std::shared_ptr<CoalescedRead> find(std::uint32_t number);
  // Memory for all of its samples, in their order; nothing if there is not enough. Must be handed on, or given back.
  using Buffers = std::vector<std::vector<std::byte>>;
  [[nodiscard]] std::optional<Buffers> take_memory(const CoalescedRead& group, std::uint64_t order);
  void give_back(Buffers buffers) noexcept;
  // Reads them. Throws SampleError. Returns the bytes of the request.
  std::size_t read(const CoalescedRead& group, std::span<std::vector<std::byte>> buffers) const;
  // Hands the samples on, or keeps them. Call once for a coalesced read, or give_up().
  void deliver(const std::shared_ptr<CoalescedRead>& group, Buffers buffers);
  // Has its samples read one by one.
  void give_up(std::uint32_t number);

 private:
  struct Plan;

  // Kept samples, ordered by when they will be needed.
  struct Kept {
    std::uint64_t order = 0;
    std::uint32_t group = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it compares with 0
    friend auto operator<=>(const Kept&, const Kept&) = default;
  };
  struct KeptAt {
    std::shared_ptr<CoalescedRead> group;
    std::uint32_t member = 0;
  };

  // Drops kept samples, those needed last first, until there is room for all that readers wait for.
  void make_room() noexcept;
  [[nodiscard]] bool drop_last() noexcept;  // false: nothing is kept

  const data::PlacedSamples& samples_;
  ByteBudget& budget_;
  ReadQueue& requests_;
  EncodedQueue& encoded_;
  CoalescingLimits limits_;
  std::size_t most_planned_;  // the most encoded bytes of one plan
  std::deque<Plan> plans_;    // used by the issuer only: the plans with samples not yet asked for
  std::vector<ReadRequest> asked_;
  std::vector<EncodedSample> there_;

  mutable std::mutex mutex_;  // guards the members below and the mutable members of coalesced reads
  std::unordered_map<std::uint32_t, std::shared_ptr<CoalescedRead>> coalesced_;  // neither handed on nor given up
  std::map<Kept, KeptAt> kept_;
  std::uint32_t last_number_ = 0;
};

}  // namespace forebay::read

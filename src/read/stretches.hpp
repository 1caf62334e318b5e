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

namespace forebay {

// What may be read by one request.
struct StretchLimits {
  // Bytes between two samples, or within one, that are read rather than left out: what a store delivers in the time
  // that another request takes it.
  std::uint64_t gap = std::uint64_t{128} << 10U;
  std::uint64_t bytes = std::uint64_t{8} << 20U;
  std::size_t samples = 256;
};

// Cuts samples into stretches: numbers into `placements`, ascending by place. A stretch has two samples at least; those
// that are alone are in none. Of samples at the same place one is in a stretch.
[[nodiscard]] std::vector<std::vector<std::size_t>> cut_into_stretches(
    std::span<const std::optional<Placement>> placements, const StretchLimits& limits);

// Samples that lie side by side, of all batches that are planned, are read by one request each: a stretch.
//
// The issuer tells what is planned, and then asks for the samples of one batch after the other. A reader reads a
// stretch when the first of its samples is needed, and takes its memory only where there is some. Samples that were
// asked for by then go to the decoders; the others are kept, and go there when the issuer asks for them. Where a reader
// has to wait for memory, those of them that will be needed last are dropped until there is room, and are then read one
// by one. So are those of a stretch that cannot be read: the reader of a sample by itself retries, and names the one
// that is bad.
//
// What is kept can never hold up what is needed now: while anything is kept, there is room beside it for all that
// readers wait for. A waiting reader first stands in the budget's line and then has samples dropped until that holds;
// whoever keeps something looks at that line afterwards.
class Stretches {
 public:
  // References must outlive it. Sets the budget's shortage hook.
  Stretches(const PlacedSamples& samples, ByteBudget& budget, ReadQueue& requests, EncodedQueue& encoded,
            std::size_t budget_bytes);
  ~Stretches();
  Stretches(const Stretches&) = delete;
  Stretches& operator=(const Stretches&) = delete;

  // --- issuer ---
  // Whether plan() was told of this place.
  [[nodiscard]] bool is_planned(std::uint64_t epoch, std::uint64_t position) const noexcept;
  // These samples of one epoch will be asked for, in this order: has those that lie side by side read together. Only
  // the first of them are planned where the budget is too small for all.
  void plan(std::span<const ReadRequest> requests);
  // Asks for those samples of a batch that are in stretches, and removes them from `requests`. REQUIRES: each is one
  // sample.
  void request(std::vector<ReadRequest>& requests);

  // --- readers ---
  // What ReadRequest::stretch names; null once it was handed on or given up. Its samples do not change.
  struct Stretch;
  [[nodiscard]] std::shared_ptr<Stretch> find(std::uint32_t number);
  // Memory for all of its samples, in their order; nothing where there is not enough. Must be handed on, or given back.
  using Buffers = std::vector<std::vector<std::byte>>;
  [[nodiscard]] std::optional<Buffers> take_memory(const Stretch& stretch, std::uint64_t order);
  void give_back(Buffers buffers) noexcept;
  // Reads them. Throws SampleError. Returns the bytes of the request.
  std::size_t read(const Stretch& stretch, std::span<std::vector<std::byte>> buffers) const;
  // Hands the samples on, or keeps them. Call once for a stretch, or give_up().
  void deliver(const std::shared_ptr<Stretch>& stretch, Buffers buffers);
  // Has its samples read one by one.
  void give_up(std::uint32_t number);

 private:
  struct Plan;

  // A sample that is kept, by when it will be needed.
  struct Kept {
    std::uint64_t order = 0;
    std::uint32_t stretch = 0;
    friend auto operator<=>(const Kept&, const Kept&) = default;
  };
  struct KeptAt {
    std::shared_ptr<Stretch> stretch;
    std::uint32_t member = 0;
  };

  // Drops what is kept, the samples that are needed last first, until there is room for all that readers wait for.
  void make_room() noexcept;
  [[nodiscard]] bool drop_last() noexcept;  // false: nothing is kept

  const PlacedSamples& samples_;
  ByteBudget& budget_;
  ReadQueue& requests_;
  EncodedQueue& encoded_;
  StretchLimits limits_;
  std::size_t most_planned_;  // encoded bytes that one plan may be for
  std::deque<Plan> plans_;    // the issuer's: those of which not all was asked for
  std::vector<ReadRequest> asked_;
  std::vector<EncodedSample> there_;

  mutable std::mutex mutex_;  // of what follows and of what changes in stretches
  std::unordered_map<std::uint32_t, std::shared_ptr<Stretch>> stretches_;  // neither handed on nor given up
  std::map<Kept, KeptAt> kept_;
  std::uint32_t last_number_ = 0;
};

}  // namespace forebay

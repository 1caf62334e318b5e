#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/random.hpp>

#include "ring/copies.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "serve/reuse_pool.hpp"
#include "simulated_device.hpp"

namespace forebay::testing {

// Bugs that can be planted between the house and the device, one at a time.
enum class Mutant : std::uint8_t {
  none,
  copies_are_not_awaited,     // a copy counts as made when it was asked for: published early, staging reused early
  copy_ignores_uses,          // a slot is overwritten while streams still read the batch before
  streams_forget_each_other,  // the end of a use on one stream hides that on another
  use_ends_too_early,         // a use ends where the stream has come, not where it was told to go
  lease_ends_elsewhere,       // a lease ends on a stream that its work is not on
  staging_is_too_small,       // a place is filled again before its copy was made
  nobody_keeps_pace,          // the trainer's thread runs ahead of the device as far as it likes
};
inline constexpr int kMutants = 8;
[[nodiscard]] std::string_view name_of(Mutant mutant) noexcept;

// How a world is set up; everything else comes from its seed.
struct WorldSetup {
  bool reuses = true;     // the trainer reuses when nothing is ready; else it waits, as under policy "block"
  bool canvases = false;  // slots hold canvases, tensors are made of them for each lease
  Mutant mutant = Mutant::none;
};

// Ring, slots, staging, copies and leases as the feeder drives them, on one thread: a seed decides whose turn it is
// (the issuer's, a decoder's, the uploader's, the trainer's, the device's), on which of its streams the trainer works,
// and how long it holds leases. The trainer's work looks at every byte when the device comes to it.
class StreamWorld {
 public:
  // Chosen by the seed.
  struct Sizes {
    std::uint32_t capacity;
    std::uint32_t pool;
    std::uint32_t run_ahead;
  };

  StreamWorld(const WorldSetup& setup, std::uint64_t seed);

  // Serves so many steps and lets the device finish. The first thing that was wrong, or an empty string.
  [[nodiscard]] std::string run(std::uint64_t steps);
  // Of the steps served.
  [[nodiscard]] std::uint64_t fresh() const noexcept { return ring_.taken(); }

 private:
  // What became of a step.
  struct StepFate {
    bool ended = false;                                          // its lease has
    std::shared_ptr<bool> done = std::make_shared<bool>(false);  // the device has done all of its work
  };
  struct Filling {
    std::uint32_t slot;
    std::uint32_t missing;
  };

  void issue();
  void decode();
  void upload();
  void train();
  void end_a_lease();
  void wait_for_a_batch();
  [[nodiscard]] bool has_kept_pace() const;
  [[nodiscard]] bool is_ready() { return ring_.state() == SlotRing::State::ready; }
  void look_at(const Lease& lease, StreamView stream);
  void fail(const std::string& what);

  WorldSetup setup_;
  Random random_;
  Sizes sizes_;
  std::shared_ptr<SimulatedDevice> device_;
  std::vector<StreamView> streams_;  // of the trainer
  StreamView stream_ = streams_.front();
  std::shared_ptr<SlotStore> store_;
  SlotRing ring_;
  Copies copies_;
  ReusePool pool_;
  std::atomic<bool> stopped_{false};
  std::uint64_t claimed_ = 0;
  std::vector<Filling> filling_;
  std::deque<std::uint32_t> complete_;  // slots that the uploader has not taken
  struct Held {
    Lease lease;
    StreamView used_on;
  };
  std::deque<Held> held_;
  std::uint64_t step_ = 0;
  std::vector<StepFate> fates_;
  std::string wrong_;
};

}  // namespace forebay::testing

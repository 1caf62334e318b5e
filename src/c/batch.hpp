#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/lease.hpp>

namespace forebay::c {
class Batches;
}

// What a handle of a batch points to: a place in Batches, used again and again.
struct forebay_batch {
  std::atomic<bool> is_held{false};
  std::optional<forebay::Lease> lease;
  std::shared_ptr<forebay::Lease> shared;     // in place of `lease` once a tensor was handed out
  std::shared_ptr<forebay::c::Batches> home;  // while it is held: batches may outlive their feeder
};

namespace forebay::c {

// The batches of a feeder, so that a step allocates nothing.
class Batches {
 public:
  // `most`: queue.max_leases.
  explicit Batches(std::size_t most) : places_(most) {}

  // REQUIRES: fewer than `most` leases are held otherwise, and `self` owns this.
  [[nodiscard]] forebay_batch* hold(Lease&& lease, const std::shared_ptr<Batches>& self);

 private:
  std::vector<forebay_batch> places_;
};

}  // namespace forebay::c

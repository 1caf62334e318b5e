#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <forebay/forebay.h>
#include <forebay/lease.hpp>
#include <forebay/tensor.hpp>

namespace forebay::c {

class Batches;

// A batch's lease once tensors share it. It ends with its last owner, so that no producer writes to what a tensor
// shows.
struct SharedLease {
  explicit SharedLease(Lease&& held) noexcept : lease(std::move(held)) {}
  ~SharedLease() {
    if (stream) lease.release(*stream);
  }
  SharedLease(const SharedLease&) = delete;
  SharedLease& operator=(const SharedLease&) = delete;

  Lease lease;
  std::optional<StreamView> stream;  // on which the batch was released; written before its share is given up
};

}  // namespace forebay::c

// What a handle of a batch points to: a place in Batches, used again and again.
struct forebay_batch {
  std::atomic<bool> is_held{false};
  std::optional<forebay::Lease> lease;
  std::shared_ptr<forebay::c::SharedLease> shared;  // in place of `lease` once a tensor was handed out
  std::shared_ptr<forebay::c::Batches> home;        // while it is held: batches may outlive their feeder
};

namespace forebay::c {

// The batches of a feeder, so that a step allocates nothing.
class Batches {
 public:
  // `most`: queue.max_leases.
  explicit Batches(std::size_t most) : places_(most) {}

  // Allocates beyond `most`, which happens while several ranks end on a rank that holds too many: until all have heard
  // of it that one makes its steps, since the others' collectives wait for it. REQUIRES: `self` owns this.
  [[nodiscard]] forebay_batch* hold(Lease&& lease, const std::shared_ptr<Batches>& self);

 private:
  std::deque<forebay_batch> places_;  // they stay where they are
};

}  // namespace forebay::c

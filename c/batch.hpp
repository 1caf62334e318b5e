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

// The lease of a batch that tensors share. It ends with its last owner, so that no producer
// overwrites the memory of a tensor in use.
struct SharedLease {
  explicit SharedLease(Lease&& held) noexcept : lease(std::move(held)) {}
  ~SharedLease() {
    if (stream) lease.release(*stream);
  }
  SharedLease(const SharedLease&) = delete;
  SharedLease& operator=(const SharedLease&) = delete;

  Lease lease;
  std::optional<StreamView> stream;  // the stream on which the batch was released; set before its share is given up
};

}  // namespace forebay::c

// What a batch handle points to: an element of Batches that is reused.
struct forebay_batch {
  std::atomic<bool> is_held{false};
  std::optional<forebay::Lease> lease;
  std::shared_ptr<forebay::c::SharedLease> shared;  // in place of `lease` once a tensor was handed out
  std::shared_ptr<forebay::c::Batches> home;        // set while held, because batches may outlive their feeder
};

namespace forebay::c {

// The batches of a feeder, allocated in advance, so that a step allocates nothing.
class Batches {
 public:
  // `most`: queue.max_leases.
  explicit Batches(std::size_t most) : places_(most) {}

  // Allocates if more than `most` batches are held. That happens when a rank of several holds too
  // many: it must keep making steps until all ranks have heard of its failure, because the others'
  // collectives wait for it. REQUIRES: `self` owns this.
  [[nodiscard]] forebay_batch* hold(Lease&& lease, const std::shared_ptr<Batches>& self);

 private:
  std::deque<forebay_batch> places_;  // a deque, so that elements keep their addresses
};

}  // namespace forebay::c

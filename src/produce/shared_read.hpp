#pragma once

#include <cstdint>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/order.hpp>

#include "read/requests.hpp"

namespace forebay::produce {

// The most samples of one read: one decoder makes them one after the other, while others may wait for work.
inline constexpr std::uint32_t kMostOfOneRead = 16;

// Adds a request for one sample, merged with the last request if both have the same bytes. REQUIRES: requests of one
// batch are added in the order of their positions and places.
inline void add_request(std::vector<read::ReadRequest>& requests, const read::ReadRequest& request,
                        const Dataset& dataset) {
  if (!requests.empty()) {
    read::ReadRequest& last = requests.back();
    if (last.count < kMostOfOneRead && dataset.source(last.sample) == dataset.source(request.sample)) {
      ++last.count;
      return;
    }
  }
  requests.push_back(request);
}

// The request for only the i-th of its samples. REQUIRES: i < request.count. Any thread.
[[nodiscard]] inline read::ReadRequest member_of(const read::ReadRequest& request, std::uint32_t i,
                                                 const Order& order) noexcept {
  read::ReadRequest member = request;
  member.count = 1;
  if (i == 0) return member;
  member.order += i;
  member.position += i;
  member.index += i;
  member.sample = order.sample(member.epoch, member.position);
  return member;
}

}  // namespace forebay::produce

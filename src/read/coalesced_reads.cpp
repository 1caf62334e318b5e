// The steps of a coalesced read:
//  - plan(), on the issuer's thread, groups samples of planned batches that are near each other in a
//    file, and puts one request per group into the read queue.
//  - request(), on the same thread, marks which members a claimed batch wants, or takes those that
//    have already been read.
//  - A reader reads the whole group when its first sample is due and calls deliver(), which hands on
//    the wanted members and keeps the others.
//  - A group that cannot be read as one is given up, and its members are read one by one.
//
// mutex_ guards the groups and the kept samples; plans_ is used by the issuer only. Kept samples
// occupy memory although no batch waits for them yet, so make_room() drops those needed last
// whenever readers are short of memory.

#include "coalesced_reads.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "encoded_parts.hpp"

namespace forebay::read {
struct CoalescedReads::CoalescedRead {
  enum class State : std::uint8_t { wanted, kept, gone };
  struct Member {
    State state = State::wanted;
    std::uint64_t sample = 0;
    std::uint64_t order = 0;  // when it will be needed (ReadRequest::order)
    data::Placement placement;
    std::optional<ReadRequest> request;  // set once the issuer has asked for it
    std::vector<std::byte> kept;
  };

  std::uint32_t number = 0;
  std::uint64_t length = 0;  // of the request
  std::vector<Member> members;
};

// Samples of one epoch by position; positions may have wide gaps.
struct CoalescedReads::Plan {
  struct Place {
    std::uint64_t position = 0;
    std::shared_ptr<CoalescedRead> group = {};  // null: the sample is read alone
    std::uint32_t member = 0;
  };

  std::uint64_t epoch = 0;
  std::vector<Place> places;  // ascending
  std::size_t left = 0;       // places that have not been asked for yet

  [[nodiscard]] const Place* find(std::uint64_t at_epoch, std::uint64_t position) const noexcept {
    if (at_epoch != epoch || position < places.front().position || position > places.back().position) return nullptr;
    const auto place = std::ranges::lower_bound(places, position, {}, &Place::position);
    return place->position == position ? &*place : nullptr;
  }
};

// Sorts the samples by file and place, and begins a new group wherever the gap, the bytes or the
// number of samples would exceed the limits. A sample that overlaps the group's last one is left
// out, because bytes that both need would have to be read into two buffers.
std::vector<std::vector<std::size_t>> coalesce(std::span<const std::optional<data::Placement>> placements,
                                               const CoalescingLimits& limits) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const auto& each = placements[i];
    if (each && each->end() - each->begin() <= limits.bytes && each->idle <= limits.gap) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(placements[i]->source, placements[i]->begin(), placements[i]->end(), i);
  });
  std::vector<std::vector<std::size_t>> coalesced;
  const auto goes_on = [&](const std::vector<std::size_t>& group, const data::Placement& next) {
    const data::Placement& first = *placements[group.front()];
    const data::Placement& last = *placements[group.back()];
    return next.source == last.source && next.begin() - last.end() <= limits.gap &&
           next.end() - first.begin() <= limits.bytes && group.size() < limits.samples;
  };
  const auto overlaps = [&](const std::vector<std::size_t>& group, const data::Placement& next) {
    const data::Placement& last = *placements[group.back()];
    return next.source == last.source && next.begin() < last.end();
  };
  for (const std::size_t i : order) {
    if (!coalesced.empty() && overlaps(coalesced.back(), *placements[i])) continue;
    if (coalesced.empty() || !goes_on(coalesced.back(), *placements[i])) coalesced.emplace_back();
    coalesced.back().push_back(i);
  }
  std::erase_if(coalesced, [](const auto& group) { return group.size() < 2; });
  return coalesced;
}

CoalescedReads::CoalescedReads(const data::PlacedSamples& samples, ByteBudget& budget, ReadQueue& requests,
                               EncodedQueue& encoded, std::size_t budget_bytes)
    : samples_(samples),
      budget_(budget),
      requests_(requests),
      encoded_(encoded),
      // Two plans are under way at the same time: one is read while the other is decoded.
      most_planned_(budget_bytes / 2) {
  // At most an eighth of the budget for one request, so that several can be under way at once.
  // Chosen.
  limits_.bytes = std::min<std::uint64_t>(limits_.bytes, budget_bytes / 8);
  budget_.on_shortage([this] { make_room(); });
}

CoalescedReads::~CoalescedReads() {
  budget_.on_shortage({});
  while (drop_last()) {
  }
}

bool CoalescedReads::is_planned(std::uint64_t epoch, std::uint64_t position) const noexcept {
  return std::ranges::any_of(plans_, [&](const Plan& plan) { return plan.find(epoch, position) != nullptr; });
}

// Plans the whole window if half of the budget can hold it; otherwise as many whole batches as fit,
// and at least one.
void CoalescedReads::plan(std::span<const ReadRequest> requests) {
  if (requests.empty()) return;
  std::vector<std::optional<data::Placement>> placements;
  placements.reserve(requests.size());
  std::uint64_t bytes = 0;
  for (const ReadRequest& request : requests) {
    placements.push_back(samples_.placement(request.sample));
    bytes += placements.back() ? encoded_bytes(*placements.back()) : 0;
    // Batches are planned as a whole, and the first one in any case.
    if (bytes > most_planned_ && request.turn != requests.front().turn) {
      const auto is_before = [&](const ReadRequest& other) { return other.turn != request.turn; };
      requests =
          requests.first(static_cast<std::size_t>(std::ranges::find_if_not(requests, is_before) - requests.begin()));
      placements.resize(requests.size());
      break;
    }
  }
  Plan plan{.epoch = requests.front().epoch, .places = {}, .left = requests.size()};
  plan.places.reserve(requests.size());
  for (const ReadRequest& request : requests) plan.places.push_back({.position = request.position});

  std::vector<ReadRequest> reads;
  const std::lock_guard lock(mutex_);
  for (const std::vector<std::size_t>& cut : coalesce(placements, limits_)) {
    auto group = std::make_shared<CoalescedRead>();
    // 0 in a request means "not coalesced".
    if (++last_number_ == 0) ++last_number_;
    group->number = last_number_;
    group->length = placements[cut.back()]->end() - placements[cut.front()]->begin();
    std::size_t earliest = cut.front();
    for (const std::size_t i : cut) {
      Plan::Place& place = plan.places[i];
      place.group = group;
      place.member = static_cast<std::uint32_t>(group->members.size());
      CoalescedRead::Member& member = group->members.emplace_back();
      member.sample = requests[i].sample;
      member.order = requests[i].order;
      member.placement = std::move(*placements[i]);
      if (requests[i].order < requests[earliest].order) earliest = i;
    }
    reads.push_back(requests[earliest]);
    reads.back().coalesced = group->number;
    coalesced_.emplace(group->number, std::move(group));
  }
  // If a batch is planned twice (once as padding), find() must return the entry that is in a
  // coalesced read.
  std::ranges::sort(plan.places, {}, [](const Plan::Place& place) { return std::pair(place.position, !place.group); });
  plans_.push_back(std::move(plan));
  std::ranges::sort(reads, {}, &ReadRequest::order);
  requests_.push(reads);
}

void CoalescedReads::request(std::vector<ReadRequest>& requests) {
  asked_.clear();
  there_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (const ReadRequest& request : requests) {
      const Plan::Place* place = nullptr;
      for (Plan& plan : plans_) {
        place = plan.find(request.epoch, request.position);
        if (place == nullptr) continue;
        --plan.left;
        break;
      }
      CoalescedRead::Member* const member =
          place == nullptr || !place->group ? nullptr : &place->group->members[place->member];
      // A sample that is asked for twice is read alone the second time.
      if (member == nullptr || member->state == CoalescedRead::State::gone || member->request) {
        asked_.push_back(request);
      } else if (member->state == CoalescedRead::State::kept) {
        there_.push_back({.request = request,
                          .bytes = std::exchange(member->kept, {}),
                          .image_bytes = image_bytes_of(member->placement)});
        member->state = CoalescedRead::State::gone;
        kept_.erase({.order = member->order, .group = place->group->number});
      } else {
        member->request = request;
      }
    }
  }
  std::erase_if(plans_, [](const Plan& plan) { return plan.left == 0; });
  requests.swap(asked_);
  encoded_.push(there_);
}

std::shared_ptr<CoalescedReads::CoalescedRead> CoalescedReads::find(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = coalesced_.find(number);
  return found == coalesced_.end() ? nullptr : found->second;
}

std::optional<CoalescedReads::Buffers> CoalescedReads::take_memory(const CoalescedRead& group, std::uint64_t order) {
  std::vector<std::size_t> sizes;
  for (const CoalescedRead::Member& member : group.members) sizes.push_back(encoded_bytes(member.placement));
  return budget_.try_take(order, sizes);
}

void CoalescedReads::give_back(Buffers buffers) noexcept {
  for (std::vector<std::byte>& buffer : buffers) budget_.give_back(std::move(buffer));
}

std::size_t CoalescedReads::read(const CoalescedRead& group, std::span<std::vector<std::byte>> buffers) const {
  std::vector<std::uint64_t> ids;
  std::vector<std::span<std::byte>> parts;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ids.push_back(group.members[i].sample);
    lay_out(buffers[i], group.members[i].placement, parts);
  }
  samples_.read_together(ids, parts);
  return static_cast<std::size_t>(group.length);
}

// Members that have been asked for meanwhile go to the decoders. make_room() is called after the
// others are kept, as the invariant in the header requires.
void CoalescedReads::deliver(const std::shared_ptr<CoalescedRead>& group, Buffers buffers) {
  std::vector<EncodedSample> wanted;
  bool keeps = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < buffers.size(); ++i) {
      CoalescedRead::Member& member = group->members[i];
      if (member.request) {
        wanted.push_back({.request = *member.request,
                          .bytes = std::move(buffers[i]),
                          .image_bytes = image_bytes_of(member.placement)});
        member.state = CoalescedRead::State::gone;
      } else {
        kept_.insert({{.order = member.order, .group = group->number}, {.group = group, .member = i}});
        member.kept = std::move(buffers[i]);
        member.state = CoalescedRead::State::kept;
        keeps = true;
      }
    }
    coalesced_.erase(group->number);
  }
  encoded_.push(wanted);
  if (keeps) make_room();
}

// The requests are urgent, because these samples were asked for long ago. Members that have not
// been asked for are marked gone, and request() has them read alone.
void CoalescedReads::give_up(std::uint32_t number) {
  std::vector<ReadRequest> alone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = coalesced_.find(number);
    if (found == coalesced_.end()) return;
    for (CoalescedRead::Member& member : found->second->members) {
      if (member.request) alone.push_back(*member.request);
      member.state = CoalescedRead::State::gone;
    }
    coalesced_.erase(found);
  }
  requests_.push_urgent(alone);
}

void CoalescedReads::make_room() noexcept {
  while (budget_.is_short() && drop_last()) {
  }
}

bool CoalescedReads::drop_last() noexcept {
  const std::lock_guard lock(mutex_);
  if (kept_.empty()) return false;
  const auto last = std::prev(kept_.end());
  CoalescedRead::Member& member = last->second.group->members[last->second.member];
  budget_.give_back(std::exchange(member.kept, {}));
  member.state = CoalescedRead::State::gone;
  kept_.erase(last);
  return true;
}

}  // namespace forebay::read

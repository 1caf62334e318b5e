#include "stretches.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace forebay {
namespace {

// Plans that may have samples which nobody has asked for yet: mostly those of this window and of the next.
constexpr std::size_t kMostPlans = 4;

}  // namespace

struct Stretches::Stretch {
  enum class State : std::uint8_t { wanted, kept, gone };
  struct Member {
    State state = State::wanted;
    std::uint64_t sample = 0;
    std::uint64_t bytes = 0;
    std::optional<ReadRequest> request;  // once it was asked for
    std::vector<std::byte> kept;
  };

  std::uint32_t number = 0;
  std::uint64_t length = 0;  // of the request
  std::vector<Member> members;
  bool is_retired = false;  // nobody asks for more of them
};

// Samples of one epoch; by position, in which stretch they are.
struct Stretches::Plan {
  struct Place {
    std::shared_ptr<Stretch> stretch;  // null: it is read alone
    std::uint32_t member = 0;
    bool is_planned = false;
  };

  std::uint64_t epoch = 0;
  std::uint64_t first = 0;  // position of the first place
  std::vector<Place> places;

  [[nodiscard]] const Place* find(std::uint64_t at_epoch, std::uint64_t position) const noexcept {
    if (at_epoch != epoch || position < first || position - first >= places.size()) return nullptr;
    const Place& place = places[position - first];
    return place.is_planned ? &place : nullptr;
  }
};

std::vector<std::vector<std::size_t>> cut_into_stretches(std::span<const std::optional<Placement>> placements,
                                                         const StretchLimits& limits) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (placements[i] && placements[i]->end() - placements[i]->begin() <= limits.bytes) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(placements[i]->source, placements[i]->begin(), placements[i]->end(), i);
  });
  std::vector<std::vector<std::size_t>> stretches;
  const auto goes_on = [&](const std::vector<std::size_t>& stretch, const Placement& next) {
    const Placement& first = *placements[stretch.front()];
    const Placement& last = *placements[stretch.back()];
    return next.source == last.source && next.begin() - last.end() <= limits.gap &&
           next.end() - first.begin() <= limits.bytes && stretch.size() < limits.samples;
  };
  const auto overlaps = [&](const std::vector<std::size_t>& stretch, const Placement& next) {
    const Placement& last = *placements[stretch.back()];
    return next.source == last.source && next.begin() < last.end();
  };
  for (const std::size_t i : order) {
    if (!stretches.empty() && overlaps(stretches.back(), *placements[i])) continue;
    if (stretches.empty() || !goes_on(stretches.back(), *placements[i])) stretches.emplace_back();
    stretches.back().push_back(i);
  }
  std::erase_if(stretches, [](const auto& stretch) { return stretch.size() < 2; });
  return stretches;
}

Stretches::Stretches(const PlacedSamples& samples, ByteBudget& budget, ReadQueue& requests, EncodedQueue& encoded,
                     std::size_t budget_bytes)
    : samples_(samples),
      budget_(budget),
      requests_(requests),
      encoded_(encoded),
      // Two plans are under way at one time: one is read while the other is decoded.
      most_planned_(budget_bytes / 2) {
  limits_.bytes = std::min<std::uint64_t>(limits_.bytes, budget_bytes / 8);
  budget_.on_shortage([this] { drop_kept(); });
}

Stretches::~Stretches() {
  budget_.on_shortage({});
  drop_kept();
}

bool Stretches::is_planned(std::uint64_t epoch, std::uint64_t position) const noexcept {
  return std::ranges::any_of(plans_, [&](const Plan& plan) { return plan.find(epoch, position) != nullptr; });
}

void Stretches::plan(std::span<const ReadRequest> requests) {
  if (requests.empty()) return;
  std::vector<std::optional<Placement>> placements;
  placements.reserve(requests.size());
  std::uint64_t bytes = 0;
  for (const ReadRequest& request : requests) {
    placements.push_back(samples_.placement(request.sample));
    bytes += placements.back() ? placements.back()->length : 0;
    // A batch is planned as a whole, and the first one always.
    if (bytes > most_planned_ && request.turn != requests.front().turn) {
      const auto is_before = [&](const ReadRequest& other) { return other.turn != request.turn; };
      requests =
          requests.first(static_cast<std::size_t>(std::ranges::find_if_not(requests, is_before) - requests.begin()));
      placements.resize(requests.size());
      break;
    }
  }
  const auto [first, last] = std::ranges::minmax(requests, {}, &ReadRequest::position);
  Plan plan{.epoch = requests.front().epoch, .first = first.position, .places = {}};
  plan.places.resize(last.position - first.position + 1);
  for (const ReadRequest& request : requests) plan.places[request.position - plan.first].is_planned = true;

  std::vector<ReadRequest> reads;
  const std::lock_guard lock(mutex_);
  for (const std::vector<std::size_t>& cut : cut_into_stretches(placements, limits_)) {
    auto stretch = std::make_shared<Stretch>();
    if (++last_number_ == 0) ++last_number_;
    stretch->number = last_number_;
    stretch->length = placements[cut.back()]->end() - placements[cut.front()]->begin();
    std::size_t earliest = cut.front();
    for (const std::size_t i : cut) {
      Plan::Place& place = plan.places[requests[i].position - plan.first];
      place.stretch = stretch;
      place.member = static_cast<std::uint32_t>(stretch->members.size());
      Stretch::Member& member = stretch->members.emplace_back();
      member.sample = requests[i].sample;
      member.bytes = placements[i]->length;
      if (requests[i].order < requests[earliest].order) earliest = i;
    }
    reads.push_back(requests[earliest]);
    reads.back().stretch = stretch->number;
    stretches_.emplace(stretch->number, std::move(stretch));
  }
  plans_.push_back(std::move(plan));
  if (plans_.size() > kMostPlans) {
    retire(plans_.front());
    plans_.pop_front();
  }
  std::ranges::sort(reads, {}, &ReadRequest::order);
  requests_.push(reads);
}

void Stretches::request(std::vector<ReadRequest>& requests) {
  asked_.clear();
  there_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (const ReadRequest& request : requests) {
      const Plan::Place* place = nullptr;
      for (const Plan& plan : plans_) {
        if (place == nullptr) place = plan.find(request.epoch, request.position);
      }
      Stretch::Member* const member =
          place == nullptr || !place->stretch ? nullptr : &place->stretch->members[place->member];
      if (member == nullptr || member->state == Stretch::State::gone) {
        asked_.push_back(request);
      } else if (member->state == Stretch::State::kept) {
        there_.push_back({.request = request, .bytes = std::exchange(member->kept, {})});
        member->state = Stretch::State::gone;
      } else {
        member->request = request;
      }
    }
  }
  requests.swap(asked_);
  encoded_.push(there_);
}

std::shared_ptr<Stretches::Stretch> Stretches::find(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = stretches_.find(number);
  if (found == stretches_.end()) return nullptr;
  const auto is_asked_for = [](const Stretch::Member& member) { return member.request.has_value(); };
  if (!found->second->is_retired || std::ranges::any_of(found->second->members, is_asked_for)) return found->second;
  stretches_.erase(found);
  return nullptr;
}

std::optional<Stretches::Buffers> Stretches::take_memory(const Stretch& stretch, std::uint64_t order) {
  std::vector<std::size_t> sizes;
  for (const Stretch::Member& member : stretch.members) sizes.push_back(static_cast<std::size_t>(member.bytes));
  return budget_.try_take(order, sizes);
}

void Stretches::give_back(Buffers buffers) noexcept {
  for (std::vector<std::byte>& buffer : buffers) budget_.give_back(std::move(buffer));
}

std::size_t Stretches::read(const Stretch& stretch, std::span<std::vector<std::byte>> buffers) const {
  std::vector<std::uint64_t> ids;
  for (const Stretch::Member& member : stretch.members) ids.push_back(member.sample);
  const std::vector<std::span<std::byte>> bytes(buffers.begin(), buffers.end());
  samples_.read_together(ids, bytes);
  return static_cast<std::size_t>(stretch.length);
}

void Stretches::deliver(Stretch& stretch, Buffers buffers) {
  std::vector<EncodedSample> wanted;
  Buffers unwanted;
  bool keeps = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Stretch::Member& member = stretch.members[i];
      if (member.request) {
        wanted.push_back({.request = *member.request, .bytes = std::move(buffers[i])});
        member.state = Stretch::State::gone;
      } else if (stretch.is_retired) {
        unwanted.push_back(std::move(buffers[i]));
        member.state = Stretch::State::gone;
      } else {
        member.kept = std::move(buffers[i]);
        member.state = Stretch::State::kept;
        keeps = true;
      }
    }
    if (const auto found = stretches_.find(stretch.number); found != stretches_.end()) {
      if (keeps) kept_.emplace(stretch.number, std::move(found->second));
      stretches_.erase(found);
    }
  }
  encoded_.push(wanted);
  give_back(std::move(unwanted));
  if (keeps && budget_.waiting() > 0) drop_kept();
}

void Stretches::give_up(std::uint32_t number) {
  std::vector<ReadRequest> alone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = stretches_.find(number);
    if (found == stretches_.end()) return;
    for (Stretch::Member& member : found->second->members) {
      if (member.request) alone.push_back(*member.request);
      member.state = Stretch::State::gone;
    }
    stretches_.erase(found);
  }
  requests_.push_urgent(alone);
}

void Stretches::drop_kept() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, stretch] : kept_) drop_kept_of(*stretch);
  kept_.clear();
}

void Stretches::drop_kept_of(Stretch& stretch) noexcept {
  for (Stretch::Member& member : stretch.members) {
    if (member.state != Stretch::State::kept) continue;
    budget_.give_back(std::exchange(member.kept, {}));
    member.state = Stretch::State::gone;
  }
}

void Stretches::retire(Plan& plan) noexcept {
  for (const Plan::Place& place : plan.places) {
    if (!place.stretch || place.stretch->is_retired) continue;
    place.stretch->is_retired = true;
    kept_.erase(place.stretch->number);
    drop_kept_of(*place.stretch);
  }
}

}  // namespace forebay

// Notices between ranks, small texts outside the collective calls, and the judgement of silence.
// Everything here is called on the thread of next(): begin() at each step, wait() again and again
// while a report or a gather is waited for. In a wait, in this order: hear what others say, tell
// them if this rank wants to end, throw if somebody who will not come is needed, and, once the wait
// gets long, say that this rank is here, and in the end give up.
//
// Ranks that give up must end on the same text although each of them notices at another moment:
// they announce it, listen for settling(), and all take the words of the lowest rank among them.
// Time is RunningTime, so a suspended process does not accuse the others.

#include "liveness.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <span>
#include <sstream>
#include <thread>
#include <tuple>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::ranks {
namespace {

// The notices, a word and its arguments.
constexpr std::string_view kEnd = "end";         // the speaker wants to end
constexpr std::string_view kHere = "here";       // EVENT: the speaker waits in it
constexpr std::string_view kOn = "on";           // STEP: the speaker makes it, although no report shows that
constexpr std::string_view kBusy = "busy";       // the speaker is busy with what is waited for
constexpr std::string_view kHasLeft = "left";    // STEP GATHERS CAUSE: a Departure
constexpr std::string_view kPaused = "left-at";  // the same, at the end of an epoch
constexpr std::string_view kGaveUp = "gave-up";  // the same, of one that waited too long

}  // namespace

Liveness::Liveness(Communicator& communicator, Patience patience)
    : communicator_(communicator),
      patience_(patience),
      others_events_(communicator.size(), 0),
      has_spoken_(communicator.size(), false) {}

Liveness::~Liveness() {
  if (watches_gathers_) communicator_.while_waiting({});
}

void Liveness::watch_gathers() {
  watches_gathers_ = true;
  communicator_.while_waiting([this] { wait(true); });
}

void Liveness::begin(std::uint64_t step) {
  step_ = step;
  goes_on_ = false;
  if (is_over()) throw Error(over_);
  hear();
  require_all(false);
}

void Liveness::alert() {
  if (has_alerted_ || is_alerted_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!wished_) wished_ = now;
  if (now - *wished_ >= hold_off()) alert_at_once();
}

void Liveness::alert_at_once() {
  if (has_alerted_ || is_alerted_) return;
  has_alerted_ = true;
  communicator_.tell(kEnd);
}

// Each group of ranks, twice as large as the previous one, first gives that one time to be heard. A
// report says the same, so unless a rank waits for its storage, all have ended by then and no
// notice is sent.
std::chrono::milliseconds Liveness::hold_off() const noexcept {
  // Chosen, like the next: with few ranks all may tell all immediately.
  constexpr std::uint32_t kFew = 64;
  constexpr std::chrono::milliseconds kToBeHeard{50};
  return communicator_.size() <= kFew ? std::chrono::milliseconds(0)
                                      : std::bit_width(communicator_.rank()) * kToBeHeard;
}

bool Liveness::alerted() {
  hear();
  require_all(false);
  return is_alerted_;
}

// Empties the inbox; a rank sends few notices in its life, so this ends.
void Liveness::hear() {
  while (const auto notice = communicator_.listen()) understand(*notice);
}

// Unknown kinds are ignored.
void Liveness::understand(const Notice& notice) {
  std::istringstream text(notice.text);
  std::string kind;
  text >> kind;
  if (kind == kEnd) is_alerted_ = true;
  if (kind == kOn) {
    std::uint64_t step = 0;
    text >> step;
    latest_on_ = std::max(latest_on_.value_or(0), step);
  }
  if (kind == kHere) {
    std::uint64_t& event = others_events_.at(notice.rank);
    text >> event;
    latest_here_ = std::max(latest_here_, event);
    has_spoken_.at(notice.rank) = true;
  }
  if (kind == kBusy && patience_.time != nullptr) began_ = patience_.time->now();
  if (kind != kHasLeft && kind != kPaused && kind != kGaveUp) return;
  // No reason to break a wait: the earlier steps are complete, and a slower rank is entitled to its
  // batches.
  Departure departure;
  departure.rank = notice.rank;
  departure.gave_up = kind == kGaveUp;
  departure.at_epoch_end = kind == kPaused;
  if (departure.gave_up && !given_up_at_) given_up_at_ = std::chrono::steady_clock::now();
  text >> departure.step >> departure.gathers;
  text.get();
  std::getline(text, departure.cause, '\0');
  departures_.push_back(std::move(departure));
  std::ranges::sort(departures_, {}, [](const Departure& d) { return std::tuple(d.step, d.rank); });
}

// A rank that left after completing a gather took part in it, however late this rank gets there. Likewise one that left
// when an epoch had ended: this rank may not have come to the report that says so.
void Liveness::end_if_missed(bool gathers) {
  const auto gone = std::ranges::find_if(departures_, [&](const Departure& departure) {
    if (gathers) return departure.gathers <= communicator_.gathers();
    return departure.step < step_ || (departure.step == step_ && (goes_on_ || !departure.at_epoch_end));
  });
  if (gone == departures_.end()) return;
  if (gone->gave_up) end_together();
  end(gone->cause);
}

void Liveness::name_leaver() {
  // Its notice was sent before its report.
  constexpr auto kBound = std::chrono::seconds(30);
  const auto start = std::chrono::steady_clock::now();
  while (departures_.empty() && std::chrono::steady_clock::now() - start < kBound) {
    hear();
    std::this_thread::yield();
  }
  end(departures_.empty() ? "a rank has left" : departures_.front().cause);
}

void Liveness::end(const std::string& cause) {
  over_ = cause;
  throw Error(cause);
}

// Several ranks miss the same ones and lose patience within a moment of each other, each with its
// own text. Sleeps in steps of a millisecond, bounded by settling(), which is two seconds at most.
void Liveness::end_together() {
  constexpr std::chrono::milliseconds kPause{1};
  for (hear(); std::chrono::steady_clock::now() - *given_up_at_ < patience_.settling(); hear()) {
    std::this_thread::sleep_for(kPause);
  }
  const Departure* lowest = nullptr;
  for (const Departure& departure : departures_) {
    if (departure.gave_up && (lowest == nullptr || departure.rank < lowest->rank)) lowest = &departure;
  }
  over_ = lowest->cause;
  throw WatchdogError(over_);
}

// Needed because the census of this step was taken as the last one of an epoch, so no report will
// show that the step is made.
void Liveness::go_on() {
  goes_on_ = true;
  require_all(false);
  communicator_.tell(std::string(kOn) + " " + std::to_string(step_));
}

bool Liveness::has_gone_on(std::uint64_t step) {
  hear();
  return latest_on_ && *latest_on_ >= step;
}

// After its own end a rank sends nothing more: what it would say is already known.
void Liveness::leave(std::uint64_t step, std::string_view cause, bool at_epoch_end) {
  if (is_over()) return;
  over_ = cause;
  tell_departure(at_epoch_end ? kPaused : kHasLeft, {.step = step, .gathers = communicator_.gathers(), .cause = over_});
}

void Liveness::tell_departure(std::string_view kind, const Departure& departure) {
  std::string text(kind);
  text.append(" ").append(std::to_string(departure.step)).append(" ").append(std::to_string(departure.gathers));
  communicator_.tell(text.append(" ").append(departure.cause));
}

// `event` counts posts and gathers, which all ranks make in the same order, so two ranks can
// compare where they wait.
void Liveness::wait(bool gathers) {
  hear();
  if (wished_) alert();
  require_all(gathers);
  if (patience_.time == nullptr || patience_.limit_s <= 0) return;
  // A rank that waits for the same ranks as one that has given them up does not announce a text of
  // its own.
  if (given_up_at_) {
    if (std::chrono::steady_clock::now() - *given_up_at_ >= patience_.settling()) end_together();
    return;
  }
  const std::uint64_t event = posts_ + communicator_.gathers() + (gathers ? 1 : 0);
  if (waits_in_ != event) began_ = patience_.time->now();
  waits_in_ = event;
  const double waited_s = std::chrono::duration<double>(patience_.time->since(began_)).count();
  say_here(event, waited_s);
  // A rank that waits for its own storage has the same limit but knows more, so it speaks first;
  // likewise one that has said that it wants to end and needs a step or two to do so.
  const double grace_s = 1 + patience_.limit_s * (is_alerted_ ? 1.25 : 0.25);
  if (waited_s >= patience_.limit_s + grace_s) give_up(event, waited_s);
}

// When the wait gets long, and in answer to others: one of them may be an event ahead, where a reduction was complete
// for it alone before a rank fell silent.
void Liveness::say_here(std::uint64_t event, double waited_s) {
  const bool is_first = said_here_ < event && (latest_here_ >= event || waited_s >= patience_.limit_s / 2);
  if (!is_first && answered_ >= latest_here_) return;
  if (is_first) has_spoken_.assign(has_spoken_.size(), false);
  said_here_ = std::max(said_here_, event);
  answered_ = std::max(event, latest_here_);
  communicator_.tell(std::string(kHere) + " " + std::to_string(event));
}

// Four times per period of the others' patience, so that missing one does no harm.
void Liveness::excuse() {
  if (patience_.time == nullptr || patience_.limit_s <= 0) return;
  constexpr double kShare = 0.25;
  const bool is_due = !excused_at_ || std::chrono::duration<double>(patience_.time->since(*excused_at_)).count() >=
                                          kShare * patience_.limit_s;
  if (!is_due) return;
  excused_at_ = patience_.time->now();
  communicator_.tell(kBusy);
}

void Liveness::give_up(std::uint64_t event, double waited_s) {
  Departure mine{
      .step = step_, .rank = communicator_.rank(), .gathers = communicator_.gathers(), .gave_up = true, .cause = {}};
  mine.cause = "rank " + std::to_string(mine.rank) + " has waited " + in_seconds(waited_s) + " (policy.watchdog_s is " +
               in_seconds(patience_.limit_s) + ") for " + missing(event);
  tell_departure(kGaveUp, mine);
  departures_.push_back(std::move(mine));
  given_up_at_ = std::chrono::steady_clock::now();
  end_together();
}

// The ranks that have not reached this event and have not spoken since this rank did. If all are
// waiting there are none: then the program makes its collective calls in different orders.
std::string Liveness::missing(std::uint64_t event) const {
  constexpr std::size_t kNamed = 8;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < others_events_.size(); ++rank) {
    if (rank != communicator_.rank() && others_events_[rank] < event && !has_spoken_[rank]) ranks.push_back(rank);
  }
  if (ranks.empty()) {
    return "other ranks, which wait too: all ranks must call next(), state() and save() in the same order";
  }
  std::string names =
      (ranks.size() == 1 ? "rank " : "ranks ") + joined(std::span(ranks).first(std::min(kNamed, ranks.size())), ", ");
  if (ranks.size() > kNamed) names += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return names + ", not heard of since: see what keeps " + (ranks.size() == 1 ? "it" : "them") +
         " from calling next(), or raise the number";
}

}  // namespace forebay::ranks

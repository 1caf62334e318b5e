#include "attendance.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <thread>
#include <tuple>

#include <forebay/error.hpp>

namespace forebay {
namespace {

constexpr std::string_view kEnd = "end";    // the speaker wants to end
constexpr std::string_view kHere = "here";  // EVENT: the speaker waits in it
constexpr std::string_view kOn = "on";      // STEP: the speaker makes it, although no ballot shows that
constexpr std::string_view kLeft = "left";  // STEP GATHERS CAUSE: a Departure

std::string one_decimal(double number) {
  std::string text = std::to_string(number);
  text.resize(text.find('.') + 2);
  return text;
}

}  // namespace

Attendance::Attendance(Communicator& communicator, Patience patience)
    : communicator_(communicator), patience_(patience), others_events_(communicator.size(), 0) {}

Attendance::~Attendance() {
  if (watches_gathers_) communicator_.while_waiting({});
}

void Attendance::watch_gathers() {
  watches_gathers_ = true;
  communicator_.while_waiting([this] { wait(true); });
}

void Attendance::begin(std::uint64_t step) {
  step_ = step;
  if (is_over()) throw Error(over_);
  hear();
  require_all(false);
}

void Attendance::alert() {
  if (has_alerted_) return;
  has_alerted_ = true;
  communicator_.tell(kEnd);
}

bool Attendance::alerted() {
  hear();
  require_all(false);
  return is_alerted_;
}

void Attendance::hear() {
  while (const auto word = communicator_.listen()) understand(*word);
}

void Attendance::understand(const Word& word) {
  std::istringstream text(word.text);
  std::string kind;
  text >> kind;
  if (kind == kEnd) is_alerted_ = true;
  if (kind == kOn) {
    std::uint64_t step = 0;
    text >> step;
    latest_on_ = std::max(latest_on_.value_or(0), step);
  }
  if (kind == kHere) {
    std::uint64_t& event = others_events_.at(word.rank);
    text >> event;
    latest_here_ = std::max(latest_here_, event);
  }
  if (kind != kLeft) return;
  // No reason to break a wait: the steps before are whole, and a rank that is slower has a right to its batches.
  Departure departure;
  departure.rank = word.rank;
  text >> departure.step >> departure.gathers;
  text.get();
  std::getline(text, departure.cause, '\0');
  departures_.push_back(std::move(departure));
  std::ranges::sort(departures_, {}, [](const Departure& d) { return std::tuple(d.step, d.rank); });
}

// A rank that left after it had completed a gather took part in it, however late this one comes to it.
void Attendance::require_all(bool gathers) {
  const auto gone = std::ranges::find_if(departures_, [&](const Departure& departure) {
    return gathers ? departure.gathers <= communicator_.gathers() : departure.step <= step_;
  });
  if (gone != departures_.end()) end(gone->cause);
}

void Attendance::name_leaver() {
  // Its word came on its way before its ballot.
  constexpr auto kBound = std::chrono::seconds(30);
  const auto start = std::chrono::steady_clock::now();
  while (departures_.empty() && std::chrono::steady_clock::now() - start < kBound) {
    hear();
    std::this_thread::yield();
  }
  end(departures_.empty() ? "a rank has left" : departures_.front().cause);
}

void Attendance::end(const std::string& cause) {
  over_ = cause;
  throw Error(cause);
}

void Attendance::go_on() { communicator_.tell(std::string(kOn) + " " + std::to_string(step_)); }

bool Attendance::has_gone_on(std::uint64_t step) {
  hear();
  return latest_on_ && *latest_on_ >= step;
}

void Attendance::leave(std::uint64_t step, std::string_view cause) {
  if (is_over()) return;
  over_ = cause;
  std::string word(kLeft);
  word.append(" ").append(std::to_string(step)).append(" ").append(std::to_string(communicator_.gathers()));
  communicator_.tell(word.append(" ").append(cause));
}

void Attendance::wait(bool gathers) {
  hear();
  require_all(gathers);
  if (!has_limit_ || patience_.time == nullptr || patience_.limit_s <= 0) return;
  const std::uint64_t event = posts_ + communicator_.gathers() + (gathers ? 1 : 0);
  if (waits_in_ != event) began_ = patience_.time->now();
  waits_in_ = event;
  const double waited_s = std::chrono::duration<double>(patience_.time->since(began_)).count();
  if (said_here_ < event && (latest_here_ >= event || waited_s >= patience_.limit_s / 2)) {
    said_here_ = event;
    communicator_.tell(std::string(kHere) + " " + std::to_string(event));
  }
  // A rank that waits for its own storage has the same limit, and knows more: it speaks first. So does one that said
  // that it wants to end, and needs a step or two to come to it.
  const double grace_s = 1 + patience_.limit_s * (is_alerted_ ? 1.25 : 0.25);
  if (waited_s >= patience_.limit_s + grace_s) give_up(event, waited_s);
}

void Attendance::give_up(std::uint64_t event, double waited_s) {
  const std::string cause = "rank " + std::to_string(communicator_.rank()) + " has waited " + one_decimal(waited_s) +
                            " s (policy.watchdog_s) for " + missing(event);
  leave(step_, cause);
  throw WatchdogError(cause);
}

std::string Attendance::missing(std::uint64_t event) const {
  constexpr std::size_t kNamed = 8;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < others_events_.size(); ++rank) {
    if (rank != communicator_.rank() && others_events_[rank] < event) ranks.push_back(rank);
  }
  if (ranks.empty()) {
    return "other ranks, which wait too: all ranks must call next(), state() and save() in the same order";
  }
  std::string names = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    names += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamed) names += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return names + ", not heard of since: see what keeps " + (ranks.size() == 1 ? "it" : "them") +
         " from calling next(), or raise the number";
}

}  // namespace forebay
